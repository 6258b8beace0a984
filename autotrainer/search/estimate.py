"""What parts of a study cost, in device-seconds and on the wall clock; shared by plan and schedule.

A slot trains one node at a time and keeps it until it is scored. There is one evaluator: the jobs of a wave
queue for it, on average behind half of the other slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import median

from autotrainer.search.plan import JobCost
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.tree import Tree

_MOST_SLOWNESS = 4.0
_RECENT = 16

CONFIRM_SPLITS = 2
"""A confirmation run is scored on dev and holdout before it counts as completed."""


def node_device_s(cost: JobCost, steps: int) -> float:
    """Device-seconds of a search node: training and one evaluation."""
    return cost.job_s(steps) + cost.eval_s


def node_wall_s(cost: JobCost, steps: int, slots: int, evaluations: int = 1) -> float:
    """Wall seconds from a node's launch to its last score while all slots are busy."""
    return cost.job_s(steps) + evaluations * cost.eval_s * (1 + slots) / 2


def confirm_device_s(cost: JobCost, steps: int, arms: int, seeds: int) -> float:
    """Device-seconds of a confirmation with runs of so many steps: training, dev, holdout, test."""
    runs = arms * seeds
    return runs * (cost.job_s(steps) + CONFIRM_SPLITS * cost.eval_s) + (runs + 1) * cost.eval_s


def confirm_wall_s(cost: JobCost, steps: int, arms: int, seeds: int, slots: int) -> float:
    """Wall seconds of the same: full waves of runs, then the evaluator alone on test."""
    runs = arms * seeds
    waves = ceil(runs / slots)
    return waves * node_wall_s(cost, steps, min(slots, runs), CONFIRM_SPLITS) + (runs + 1) * cost.eval_s


def slowness(cost: JobCost, nodes: Sequence[Node]) -> float | None:
    """Device-seconds of ended nodes over what the cost model said, together; None where none has ended."""
    ended = [node for node in nodes if node.outcome is not None and node.outcome.steps]
    if not ended:
        return None
    said = sum(cost.job_s(node.outcome.steps) for node in ended if node.outcome)
    return sum(node.outcome.device_s for node in ended if node.outcome) / said


def usual_slowness(tree: Tree, cost: JobCost) -> float:
    """What a search node takes over what the cost model says: the median of those that ended last.

    Recipes with longer completions take longer than the smoke run of the careful one has shown.
    """
    nodes = tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL)[-_RECENT:]
    found = [ratio for node in nodes if (ratio := slowness(cost, [node])) is not None]
    return min(_MOST_SLOWNESS, max(1.0, median(found))) if found else 1.0


def path_slowness(tree: Tree, cost: JobCost, finalists: Sequence[Node]) -> float:
    """The same for running the finalists' whole paths again; never below 1."""
    found = [slowness(cost, tree.lineage(node.id)) for node in finalists]
    return min(_MOST_SLOWNESS, max([1.0, *(ratio for ratio in found if ratio is not None)]))
