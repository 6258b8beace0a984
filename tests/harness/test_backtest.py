"""Backtests on stored rollouts whose figures are worked out by hand."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import backtest
from harness.contract import ContractError, HookSpec
from harness.hooks.api import RolloutBatch


def stored(folder, groups):
    """Groups of (step, prompt, [(reward, tokens)])."""
    rows = []
    for number, (step, prompt, completions) in enumerate(groups):
        for reward, tokens in completions:
            rows.append(
                {
                    "step": step,
                    "prompt_id": prompt,
                    "group": number,
                    "prompt": prompt,
                    "completion": "x" * tokens,
                    "tokens": tokens,
                    "finish_reason": "stop",
                    "reward": float(reward),
                    "components": json.dumps({"accuracy": float(reward)}),
                }
            )
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "1.parquet")
    return backtest.stored_groups([folder])


@pytest.fixture
def groups(tmp_path):
    return stored(
        tmp_path / "rollouts",
        [
            (1, "a", [(1, 2), (1, 4)]),
            (1, "b", [(0, 3), (0, 3)]),
            (2, "c", [(1, 2), (0, 6)]),
            (2, "d", [(1, 5), (1, 5)]),
        ],
    )


def run(monkeypatch, groups, point, hook):
    monkeypatch.setattr(backtest, "load_hook", lambda spec: hook)
    return backtest.backtest(HookSpec(point, "hooks/x.py:X", {}), groups, 8, 0)


def test_a_reward_that_breaks_a_tie_regains_its_group(monkeypatch, groups):
    import torch

    class Shorter:
        def __init__(self):
            self.adds = {"short": 1.0}

        def components(self, inputs):
            return {"short": torch.tensor([-len(ids) / 10 for ids in inputs.completion_ids_N])}

    figures = run(monkeypatch, groups, "rewards", Shorter())
    assert (figures["dead_groups_before"], figures["dead_groups_after"]) == (0.75, 0.5)
    assert (figures["regained"], figures["lost"]) == (0.25, 0.0)
    assert figures["effect"]["mean"] == 0.25
    assert figures["length_after"] < figures["length_before"]
    assert figures["correctness_before"] == pytest.approx(1.0)


def test_a_hook_that_changes_nothing_has_no_effect(monkeypatch, groups):
    class Same:
        def group(self, inputs):
            return inputs.advantages_P_G

    figures = run(monkeypatch, groups, "advantages", Same())
    assert figures["effect"] == {"mean": 0.0, "low": 0.0, "high": 0.0, "n": 4}


def test_a_sampler_is_judged_by_the_variance_of_the_prompts_it_chooses(monkeypatch, groups):
    class Half:
        def choose(self, inputs):
            return [2] * len(inputs.proposed_P)  # c, of which half are right

    figures = run(monkeypatch, groups, "sampler", Half())
    assert figures["variance_before"] == pytest.approx((0.0 + 0.5) / 2)
    assert figures["variance_after"] == 1.0


def test_draws_are_taken_from_what_is_stored_and_counted(monkeypatch, groups):
    class Twice:
        def draw(self, inputs):
            rows = [row for row in inputs.rows_P for _ in range(inputs.group_size)]
            inputs.generate(rows)
            return RolloutBatch(inputs.generate(rows))

    figures = run(monkeypatch, groups, "rollouts", Twice())
    assert figures["tokens_ratio"] == 2.0
    assert figures["dead_groups_before"] == 0.75


def test_what_needs_the_policy_is_refused_by_name(monkeypatch, groups):
    class Loss:
        def term(self, inputs):
            raise AssertionError

    with pytest.raises(ContractError, match="a hook at loss that needs the current policy"):
        run(monkeypatch, groups, "loss", Loss())


def test_groups_that_are_not_whole_are_left_out(tmp_path):
    found = stored(
        tmp_path / "r", [(1, "a", [(1, 2), (0, 2)]), (1, "b", [(1, 2)]), (2, "c", [(1, 1), (1, 1)])]
    )
    assert [group.prompt_id for group in found] == ["a", "c"]
