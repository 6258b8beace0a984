"""Whole studies in the simulated world, and the world's own facts."""

from random import Random

import pytest

from autotrainer.bench.simulated.figures import figure, probability_of_improvement
from autotrainer.bench.simulated.player import play
from autotrainer.budget.ledger import Ledger
from autotrainer.errors import ConfigError
from autotrainer.search.kill_rules import Behind
from autotrainer.search.plan import JobCost
from autotrainer.search.stopping import constant_is_as_good
from autotrainer.simulation.dynamics import rows
from autotrainer.simulation.levers import Levers
from autotrainer.simulation.policy import PolicyState, accuracy
from autotrainer.simulation.surface import FAMILIES, Surface, draw_surface, same_for_all
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.tree import Tree

COST = JobCost(8.0, 0.15, 4.0)


def end(surface, rate, steps, seed=0):
    levers = Levers(
        rate=rate, warmup=3, rewarmup=0, decay="constant", group=8, prompts=8, completions=1.0,
        temperature=1.0,
        beta=0.0, bonus=0.0, clip_high=0.2, iterations=1, loss="dapo", scale="group", max_grad_norm=1.0,
        cap_growth=0.0, mask_cut=False, hooks=frozenset(),
    )  # fmt: skip
    state = PolicyState()
    for _, after in rows(surface, state, levers, steps, seed, 10):
        state = after
    return accuracy(surface, state)


def test_the_world_has_the_shape_that_was_measured_with_the_tiny_model():
    plain = Surface("plain")
    start = accuracy(plain, PolicyState())
    good, slow, high, lost = (end(plain, rate, 150) for rate in (1.0, 0.3, 3.0, 10.0))
    assert 0.3 < start < 0.4
    assert good > start + 0.12
    assert start < slow < good
    assert high < good
    assert lost < 0.05
    assert end(plain, 10.0, 20) < 0.05


def test_equal_arguments_give_equal_curves_and_another_seed_another_one():
    surface = draw_surface("halfway", 3)
    assert end(surface, 1.0, 60, seed=1) == end(surface, 1.0, 60, seed=1) != end(surface, 1.0, 60, seed=2)
    with pytest.raises(ConfigError, match="unknown simulated surface 'moon': known are constant"):
        draw_surface("moon", 0)
    assert all(draw_surface(name, 1) == draw_surface(name, 1) for name in FAMILIES)


@pytest.fixture(scope="module")
def played():
    search = {"mode": "tree", "max_nodes": 12}
    return play(draw_surface("too-low", 2), seed=2, budget="2xCPUx10m", cost=COST, search=search)


def test_a_study_plays_to_its_end_within_its_grant(played):
    assert played.summary["arm"] in ("search", "careful")
    assert played.ledger.used <= played.ledger.granted
    assert played.ledger.reserved == 0
    assert played.tree.active == ()
    assert played.ended <= 600.0


def test_a_study_that_is_played_again_is_the_same(played):
    search = {"mode": "tree", "max_nodes": 12}
    again = play(draw_surface("too-low", 2), seed=2, budget="2xCPUx10m", cost=COST, search=search)
    assert again.tree == played.tree
    assert again.summary == played.summary


def test_nothing_is_claimed_where_every_recipe_is_worth_the_same():
    search = {"mode": "tree", "max_nodes": 10}
    found = play(same_for_all(0.01), seed=5, budget="2xCPUx10m", cost=COST, search=search)
    assert found.summary["arm"] == "careful"


def test_replay_equals_the_live_tree_and_its_indexes_for_every_prefix():
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4, 0.41)
    first = builder.completed(builder.node(knobs={"beta": 0.01}), 0.5)
    builder.completed(builder.node(first), 0.55)
    invalid = builder.completed(builder.node(first, knobs={"beta": 0.02}), 0.9)
    builder.emit("node_validity", node=invalid, validity="invalid", reason="frozen files changed")
    live, ledger = Tree(), Ledger()
    for place, event in enumerate(builder.events):
        live.apply(event)
        ledger.apply(event)
        again = Tree.replay(builder.events[: place + 1])
        assert again == live
        assert again.levels == live.levels
        assert [again.below(node.id) for node in again.nodes] == [live.below(node.id) for node in live.nodes]
    assert invalid not in {node.id for node in live.candidates}


def test_a_run_behind_the_others_of_its_depth_is_stopped_and_one_within_noise_is_not():
    good = [[(10, 0.5), (20, 0.55), (30, 0.6)] for _ in range(5)]
    assert Behind().reason([(10, 0.3), (20, 0.28), (30, 0.25)], good, 30) is not None
    assert Behind().reason([(10, 0.48), (20, 0.53), (30, 0.58)], good, 30) is None
    assert Behind().reason([(10, 0.3), (20, 0.28), (30, 0.25)], good[:3], 30) is None


def test_a_search_in_vain_is_given_up_and_one_that_gains_is_not():
    def searched(best):
        builder = TreeBuilder()
        builder.base()
        careful = builder.careful_seeds(0.40, 0.41)
        builder.completed(builder.node(careful[0]), 0.45)
        for place, dev in enumerate((0.39, 0.40, 0.405, 0.395, best)):
            builder.completed(builder.node(knobs={"beta": 0.01 * (place + 1)}), dev)
        for place, dev in enumerate((0.44, 0.45, 0.455)):
            builder.completed(builder.node("n004", knobs={"beta": 0.1 * (place + 1)}), dev)
        return builder.tree

    assert "one constant recipe is as good" in constant_is_as_good(searched(0.405))
    assert constant_is_as_good(searched(0.50)) is None
    assert searched(0.5).count(Purpose.SEARCH) == 9


def test_probability_of_improvement_pairs_cases_and_counts_ties_as_half():
    rng = Random(1)
    table = [
        {
            "family": family,
            "seed": seed,
            "tuner": tuner,
            "final": 0.5 if tuner == "b" else 0.5 + 0.1 * (seed % 2),
        }
        for family in ("x", "y")
        for seed in range(10)
        for tuner in ("a", "b")
    ]
    rng.shuffle(table)
    found = probability_of_improvement(table, "a", "b")
    assert found["mean"] == 0.75
    assert found["low"] < 0.75 < found["high"]
    assert found["n"] == 20
    assert figure({("x", 1): 1.0, ("x", 2): 1.0})["low"] == 1.0
