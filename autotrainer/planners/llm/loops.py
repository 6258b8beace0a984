"""Doom loops: equal decisions, cycles, failures in a row; from the journal's decisions and the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from autotrainer.planners.llm.decision import Decision
from autotrainer.tree.node import Node
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

SUBTRACT_AFTER, ROLL_BACK_AFTER = 3, 5
"""Failures in a row after which nothing may be added, and after which the best node is gone back to."""
EQUAL = 3


class Mood(StrEnum):
    """What the next decision may do."""

    FREE = "free"
    SUBTRACT = "subtract"
    """It only takes back: no skill, edit, hook, reward or suggestion is added; knobs go to older values."""
    ROLL_BACK = "roll_back"
    """It starts from the best node."""


def fingerprint(decision: Decision, parent_stage_knobs: Mapping[str, Any]) -> str:
    """What a decision does, without the numbers: edge, skills, edited files, knobs and their directions."""
    moves = sorted(_direction(change.knob, change.value, parent_stage_knobs) for change in decision.changes)
    parts = [
        decision.edge or "",
        ",".join(sorted(decision.skills)),
        ",".join(moves),
        ",".join(sorted(edit.path for edit in decision.edits)),
        ",".join(sorted(f"{'-' * hook.remove}{hook.ref}" for hook in decision.hooks)),
        ",".join(sorted(f"{'-' * reward.remove}{reward.ref}" for reward in decision.rewards)),
        "suggestion" if decision.use_suggestion else "",
    ]
    return "|".join(parts)


def _direction(knob: str, value: Any, knobs: Mapping[str, Any]) -> str:
    old = knobs.get(knob)
    if isinstance(value, int | float) and isinstance(old, int | float) and not isinstance(value, bool):
        return f"{knob}{'+' if value > old else '-' if value < old else '='}"
    return f"{knob}:{value}"


def loop(done: Sequence[str], new: str) -> str | None:
    """Why a decision continues a loop: the third equal one in a row, a cycle of two or three; else None."""
    row = [*done, new]
    if len(row) >= EQUAL and len(set(row[-EQUAL:])) == 1:
        return f"{EQUAL} equal decisions in a row"
    for period in (2, 3):
        tail = row[-2 * period :]
        if len(tail) == 2 * period and tail[:period] == tail[period:]:
            return f"a cycle of {period} decisions"
    return None


def failures(tree: Tree, planner: str) -> int:
    """Ended nodes of the planner, newest first, that failed, were pruned or gained nothing; until one did."""
    count = 0
    for node in reversed(tree.nodes):
        if node.proposal.planner != planner or not node.state.is_terminal:
            continue
        if node.state is NodeState.CANCELLED:
            continue
        if not _failed(tree, node):
            break
        count += 1
    return count


def _failed(tree: Tree, node: Node) -> bool:
    after = node.score("dev")
    if node.state is not NodeState.COMPLETED or after is None:
        return True
    before = (ancestor.score("dev") for ancestor in reversed(tree.lineage(node.id)[:-1]))
    known = next((score for score in before if score is not None), None)
    return known is not None and after <= known


def mood(tree: Tree, planner: str) -> Mood:
    """What the failures so far ask for; every second roll-back leaves the model free again."""
    count = failures(tree, planner)
    if count < SUBTRACT_AFTER:
        return Mood.FREE
    return Mood.SUBTRACT if count < ROLL_BACK_AFTER else Mood.ROLL_BACK
