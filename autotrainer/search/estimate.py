"""What parts of a study cost, in device-seconds and on the wall clock; shared by plan and schedule.

A slot trains one node at a time and keeps it until it is scored. There is one evaluator: the jobs of a wave
queue for it, on average behind half of the other slots.
"""

from __future__ import annotations

from math import ceil

from autotrainer.search.plan import JobCost

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
