"""A study that a scripted model plans through a real endpoint: it writes code that nodes then use."""

import json
from pathlib import Path
from typing import Any

import pytest

from autotrainer.cli.app import invoke
from autotrainer.study.study import run_study
from autotrainer.study.view import StudyView
from autotrainer.testing.faulty_server import FaultyServer
from autotrainer.testing.scripted_model import change, go_on
from autotrainer.tree.state import NodeState

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

SHAPING = '''"""A small price for length."""

from typing import ClassVar

import torch


class Short:
    """Prefers short completions."""

    adds: ClassVar[dict[str, float]] = {"short": 0.05}

    def components(self, inputs):
        """Minus the share of the cap that a completion uses."""
        cap = inputs.max_completion_length
        return {"short": torch.tensor([-len(ids) / cap for ids in inputs.completion_ids_N])}
'''
CURRICULUM = '''"""A curriculum."""


class Middle:
    """Prompts that are neither hopeless nor solved, where some are known."""

    def choose(self, inputs):
        """As many prompts as proposed."""
        known = [i for i, h in inputs.history.items() if 0.1 < h.last_pass_rate < 0.9]
        return (known + list(inputs.proposed_P))[: len(inputs.proposed_P)]
'''
BROKEN = SHAPING.replace("torch.tensor([", "torch.tensor([undefined * ")
DIAGNOSTIC = '''"""No reward at all."""


def check(rows, rollouts):
    """Warns where the reward is 0 to the end, and says how many rows it has seen."""
    flat = all(row.get("reward", 0.0) <= 0 for row in rows)
    severity = "warning" if flat else "info"
    return [{"kind": "rows_seen", "severity": severity, "onset_step": 1, "message": str(len(rows))}]
'''
USE_SHORT = [{"point": "rewards", "ref": "hooks/short.py:Short", "params": []}]
DECISIONS: list[dict[str, Any]] = [
    go_on(edge="draft", hooks=USE_SHORT, edits=[{"path": "harness/hooks/short.py", "content": BROKEN}]),
    go_on(
        edge="draft",
        hooks=USE_SHORT,
        edits=[
            {"path": "harness/hooks/short.py", "content": SHAPING},
            {"path": "diagnostics/rows_seen.py", "content": DIAGNOSTIC},
        ],
        hypothesis="a price for length makes answers shorter",
        predictions=[{"metric": "completions/mean_length", "direction": "down"}],
    ),
    go_on(
        parent="n002",
        edge="transition",
        hooks=[{"point": "sampler", "ref": "hooks/middle.py:Middle", "params": []}],
        edits=[{"path": "harness/hooks/middle.py", "content": CURRICULUM}],
    ),
    go_on(parent="n003", edge="transition", changes=change(temperature=1.1)),
]


class Player(FaultyServer):
    """Answers with the decisions, one a call."""

    def _completion(self) -> dict[str, Any]:
        self.good = f"```json\n{json.dumps(DECISIONS[min(self.calls, len(DECISIONS)) - 1])}\n```"
        return super()._completion()


@pytest.fixture(scope="module")
def played(begin) -> StudyView:
    """The study until its last node of the search has ended."""
    with Player("") as server:
        search = {"mode": "tree", "steps": 4, "max_nodes": 4, "careful_seeds": 1, "drafts": 1, "max_depth": 3}
        root = begin(
            "played",
            planner="llm",
            llm={"model": "openai/player", "base_url": server.url},
            search={**search, "confirm_seeds": 2, "kill": False},
            evaluation={"dev_items": 32, "samples": 1},
        )
        seen: list[StudyView] = []
        return run_study(
            root,
            on_tick=seen.append,
            should_stop=lambda: (
                bool(seen) and "n004" in seen[-1].tree and seen[-1].tree["n004"].state.is_terminal
            ),
        )


def test_a_hook_a_sampler_and_a_diagnostic_of_the_model_are_vetted_and_used(played):
    assert played.state == "paused"
    shaped, sampled, child = (played.tree[name] for name in ("n002", "n003", "n004"))
    assert [node.state for node in (shaped, sampled, child)] == [NodeState.COMPLETED] * 3
    assert shaped.proposal.recipe.stages[-1].hooks[0].ref == "hooks/short.py:Short"
    assert {hook.point for hook in child.proposal.recipe.stages[-1].hooks} == {"rewards", "sampler"}
    first = next(event.data for event in played.events if event.kind == "llm_decision")
    assert "undefined name 'undefined'" in first["rejections"][0]
    assert first["gates"][-1] == "smoke run"
    assert "short" in json.dumps(played.metrics("n004").rows[-1])


def test_the_models_own_diagnostic_is_run_over_later_nodes(played):
    kinds = {finding.kind for finding in played.tree["n003"].findings}
    assert "rows_seen" in kinds


def test_children_inherit_the_edits_and_show_prints_them(played, capsys):
    for node in ("n003", "n004"):
        workspace = played.paths.workspace(node)
        assert (workspace / "harness/hooks/short.py").read_text() == SHAPING
        assert (workspace / "harness/hooks/middle.py").read_text() == CURRICULUM
    assert invoke(["show", str(played.paths.root), "n002"]) == 0
    shown = capsys.readouterr().out
    assert "+class Short:" in shown
    assert "diagnostics/rows_seen.py" in shown


def test_vetting_is_charged_and_the_calls_are_in_the_ledger(played):
    assert any(event.kind == "charge" and event.data["what"].startswith("vetting") for event in played.events)
    calls = [event.data for event in played.events if event.kind == "llm_settled"]
    assert len(calls) >= 4
    assert all((Path(played.paths.root) / "llm" / call["transcript"]).is_file() for call in calls)
