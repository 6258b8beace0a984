"""BracketPlanner: what a careful person does: a bracket of three learning rates, then seeds of the best."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import ClassVar

from autotrainer.errors import PlannerError
from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, clamp, describe
from autotrainer.planners.random import from_knobs
from autotrainer.search.frontier import base
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Proposal, Purpose

FACTOR = 3.0
"""The bracket's points: the careful learning rate, a third and three times it."""
SEEDS = 3
"""Runs of the best rate in the end."""


class BracketPlanner:
    """The careful baseline as a planner.

    Careful seeds first (the study's), the other two rates once each, and the best of the three on more seeds
    until it has three. A bracket whose best rate is at its edge is widened once on that side.
    """

    name: ClassVar[str] = "bracket"
    policy: ClassVar[str] = "restarts"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node, always from the base.

        Raises:
            PlannerError: bracket and seeds are done, or runs are under way that decide what comes next.
        """
        root, careful = base(context.tree).id, context.careful.stages[-1]
        for rate in _wanted(context):
            change = Change(
                knobs={"learning_rate": rate},
                why=f"learning rate bracket: {describe(careful, {'learning_rate': rate})}",
            )
            return from_knobs(context, root, change, self.name)
        raise PlannerError("the learning rate bracket is done")


def _wanted(context: PlanningContext) -> Iterator[float]:
    careful = float(context.careful.stages[-1].knobs["learning_rate"])
    runs = _by_rate(context)
    for factor in (1 / FACTOR, FACTOR):
        rate = _rounded(careful * factor)
        if rate not in runs:
            yield rate
    if any(not node.state.is_terminal for nodes in runs.values() for node in nodes):
        return
    best = max(runs, key=lambda rate: (_level(runs[rate]), -abs(rate - careful)))
    if len(runs) == 3 and best != _middle(runs):
        yield _rounded(best * FACTOR if best > careful else best / FACTOR)
    if len(runs[best]) < SEEDS:
        yield best


def _by_rate(context: PlanningContext) -> dict[float, list[Node]]:
    runs: dict[float, list[Node]] = {}
    for node in context.tree.with_purpose(Purpose.CAREFUL, Purpose.SEARCH):
        runs.setdefault(float(node.proposal.recipe.stages[-1].knobs["learning_rate"]), []).append(node)
    return runs


def _middle(runs: dict[float, list[Node]]) -> float:
    return sorted(runs)[len(runs) // 2]


def _level(nodes: list[Node]) -> float:
    scores = [score for node in nodes if (score := node.score("dev")) is not None]
    return fmean(scores) if scores else 0.0


def _rounded(rate: float) -> float:
    return float(f"{clamp('learning_rate', rate):.3g}")
