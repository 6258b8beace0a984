import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from autotrainer.budget.grammar import parse_budget
from autotrainer.budget.model_shape import parameters_from_name
from autotrainer.errors import ConfigError
from autotrainer.search.estimate import confirm_device_s, confirm_wall_s, node_device_s, node_wall_s
from autotrainer.search.plan import JobCost, Plan
from autotrainer.search.planning import make_plan
from autotrainer.search.statistics import provable_gain
from autotrainer.study.config import SearchSettings

DEMO = JobCost(startup_s=7.0, step_s=0.16, eval_s=3.0)


def plan(budget, cost=DEMO, model="tiny", slots=None, **settings):
    return make_plan(parse_budget(budget), cost, SearchSettings(**settings), model_name=model, slots=slots)


def test_the_demo_gets_a_tree_of_eight_nodes_and_three_confirmation_seeds():
    demo = plan("2xCPUx6m")
    assert (demo.mode, demo.slots, demo.steps, demo.confirm_seeds) == ("tree", 2, 60, 3)
    assert demo.max_nodes >= 8
    assert demo.max_depth >= 2
    assert demo.careful_seeds >= 2
    assert demo.drafts >= 2


def test_a_slower_machine_still_gets_a_tree_with_a_shorter_horizon():
    slow = plan("2xCPUx6m", JobCost(12.0, 0.28, 5.5))
    assert (slow.mode, slow.confirm_seeds) == ("tree", 3)
    assert 30 <= slow.steps < 60
    assert slow.max_nodes >= 8


@pytest.mark.parametrize(
    ("budget", "mode"),
    [("1xCPUx1m", "watch"), ("2xCPUx2m", "careful"), ("2xCPUx6m", "tree"), ("2xCPUx30m", "tree")],
)
def test_the_mode_follows_from_the_full_runs_that_the_budget_buys(budget, mode):
    assert plan(budget).mode == mode


@pytest.mark.parametrize(
    ("model", "mode"), [("a/x-1.5B", "tree"), ("a/x-7B", "careful"), ("a/x-32B", "watch")]
)
def test_a_day_of_eight_gpus_is_spent_by_the_models_size(model, mode):
    share = parameters_from_name(model) / 1.5e9  # a step of a 1.5B model with 512 long completions takes 47 s
    cost = JobCost(startup_s=60.0, step_s=47.0 * share, eval_s=120.0 * share)
    large = plan("8xH100x24h", cost, model)
    assert large.mode == mode
    if mode == "tree":
        assert 25 <= large.max_nodes <= 60
        assert (large.careful_seeds, large.drafts, large.steps) == (3, 6, 200)


costs = st.builds(JobCost, st.floats(1, 60), st.floats(0.01, 30), st.floats(0.5, 60))


@settings(max_examples=150)
@given(costs, st.integers(1, 16), st.integers(60, 100_000), st.integers(1, 2))
def test_a_plan_that_the_mode_chose_fits_budget_and_deadline(cost, devices, seconds, finalists):
    try:
        made = plan(f"{devices}xCPUx{seconds}s", cost, finalists=finalists)
    except ConfigError:
        return
    arms, path = made.finalists + 1, made.max_depth * made.steps
    if made.mode != "tree":
        assert (
            made.careful_seeds * node_device_s(cost, made.steps) + made.confirm_reserve_s <= devices * seconds
        )
        return
    assert made.confirm_reserve_s == confirm_device_s(cost, path, arms, made.confirm_seeds)
    assert made.max_nodes * node_device_s(cost, made.steps) + made.confirm_reserve_s <= devices * seconds
    if made.max_nodes > 1:
        wall = made.max_nodes / made.slots * node_wall_s(cost, made.steps, made.slots)
        assert wall + confirm_wall_s(cost, path, arms, made.confirm_seeds, made.slots) <= seconds


def test_what_the_user_sets_wins():
    asked = plan(
        "2xCPUx30m",
        steps=30,
        max_nodes=9,
        careful_seeds=1,
        drafts=4,
        max_depth=2,
        confirm_seeds=5,
        finalists=2,
    )
    assert (asked.steps, asked.max_nodes, asked.careful_seeds, asked.drafts) == (30, 9, 1, 4)
    assert (asked.max_depth, asked.confirm_seeds, asked.finalists) == (2, 5, 2)


def test_a_tree_that_is_asked_for_on_a_small_budget_gets_smaller():
    small = plan("1xCPUx3m", mode="tree", steps=10, max_nodes=4)
    assert (small.mode, small.steps, small.max_nodes) == ("tree", 10, 4)
    assert small.max_depth < 4


def test_fewer_slots_than_devices_mean_fewer_nodes():
    assert plan("2xCPUx10m", slots=1).max_nodes < plan("2xCPUx10m").max_nodes
    assert plan("2xCPUx10m", slots=1).slots == 1


@pytest.mark.parametrize(
    ("budget", "settings"),
    [("1xCPUx20s", {}), ("1xCPUx1m", {"mode": "tree"}), ("1xCPUx1m", {"mode": "careful", "steps": 500})],
)
def test_a_budget_that_does_not_pay_for_what_was_asked_is_refused(budget, settings):
    with pytest.raises(ConfigError, match=rf"budget {budget} grants \d+ device-seconds"):
        plan(budget, **settings)


def test_without_a_search_the_careful_runs_are_as_long_as_the_budget_allows():
    short, longer = plan("2xCPUx1m"), plan("2xCPUx2m")
    assert (short.mode, longer.mode) == ("careful", "careful")
    assert 2 <= short.steps < longer.steps <= 240
    assert (longer.careful_seeds, longer.max_nodes, longer.drafts) == (3, 3, 0)


def test_a_plan_survives_its_json_form():
    assert Plan.from_json(plan("2xCPUx6m").to_json()) == plan("2xCPUx6m")


def test_the_provable_gain_is_found_four_times_in_five():
    gain, rng = provable_gain(3, 0.02), np.random.default_rng(0)
    arms = rng.normal(0, 0.02, (4000, 2, 3)) + np.array([gain, 0.0])[None, :, None]
    found = stats.ttest_ind(arms[:, 0], arms[:, 1], axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.06)


def test_one_seed_proves_nothing():
    assert provable_gain(1, 0.02) == 1.0
    assert provable_gain(5, 0.02) < provable_gain(3, 0.02) < provable_gain(2, 0.02)
