"""Arithmetic on the series of a run that diagnostics share: windows, levels and changes against noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import sqrt
from statistics import fmean, variance
from typing import Any

from autotrainer.contract.metrics import Metrics

REWARD = "reward"
ZERO_STD = "frac_reward_zero_std"
ENTROPY = "entropy"
CLIPPED = "completions/clipped_ratio"
GRAD_NORM = "grad_norm"

Z_MAX = 99.0
"""Where a change has no noise at all its z-score is this, so that evidence stays finite."""


def aligned(metrics: Metrics, keys: Iterable[str]) -> list[tuple[int, dict[str, float]]]:
    """(step, values) of the rows in which every key was logged with a finite number, in order."""
    series = {key: dict(metrics.series(key)) for key in keys}
    steps = set.intersection(*(set(values) for values in series.values()))
    return [(step, {key: values[step] for key, values in series.items()}) for step in sorted(steps)]


def tied_rows(metrics: Metrics, context: Mapping[str, Any]) -> list[tuple[int, dict[str, float]]]:
    """(step, reward and share of groups without differences) in order.

    The trainer's share is over the batch, not over groups, where rewards are scaled by the batch: then the
    recorder's is taken.
    """
    if context.get("scale_rewards") == "batch" and metrics.values("groups/mixed"):
        rows = aligned(metrics, (REWARD, "groups/mixed"))
        return [(step, {REWARD: row[REWARD], ZERO_STD: 1.0 - row["groups/mixed"]}) for step, row in rows]
    return aligned(metrics, (REWARD, ZERO_STD))


def thirds(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    """The first, middle and last third; the middle one takes what is left over."""
    size = len(values) // 3
    return values[:size], values[size : len(values) - size], values[len(values) - size :]


def z_change(before: Sequence[float], after: Sequence[float]) -> float:
    """How far `after` lies above `before` in standard errors (Welch), within +-Z_MAX.

    0 where a side has under 2 values.
    """
    if len(before) < 2 or len(after) < 2:
        return 0.0
    difference = fmean(after) - fmean(before)
    error = sqrt(variance(before) / len(before) + variance(after) / len(after))
    if error == 0.0:
        return 0.0 if difference == 0.0 else (Z_MAX if difference > 0 else -Z_MAX)
    return max(-Z_MAX, min(Z_MAX, difference / error))


def best_mean(values: Sequence[float], width: int) -> tuple[float, int]:
    """The highest mean of `width` neighbours and the index at which it begins.

    All values where there are fewer.
    """
    if len(values) <= width:
        return fmean(values), 0
    sums = [0.0, *accumulate(values)]
    means = [(sums[index + width] - sums[index]) / width for index in range(len(values) - width + 1)]
    index = max(range(len(means)), key=means.__getitem__)
    return means[index], index


def onset(series: Sequence[tuple[int, float]], holds: Callable[[float], bool], gap: int = 3) -> int:
    """The step at which the last stretch begins in which `holds`.

    Up to `gap` - 1 rows in a row may break it.
    """
    start, broken = series[-1][0], 0
    for step, value in reversed(series):
        if holds(value):
            start, broken = step, 0
        elif (broken := broken + 1) >= gap:
            break
    return start


def is_flat(early: Sequence[float], late: Sequence[float]) -> bool:
    """Whether two stretches differ by no more than noise; the fewer values, the more it takes."""
    return abs(z_change(early, late)) < 2.0 + 6.0 / max(1, min(len(early), len(late)))


def span(steps: Sequence[int]) -> tuple[int, int]:
    """First and last of the steps."""
    return steps[0], steps[-1]


def reward_top(metrics: Metrics, context: Mapping[str, Any]) -> float:
    """The highest reward there is.

    `reward_max` of the context, else the highest mean seen, at least 1 (a verifier's).
    """
    known = context.get("reward_max")
    return float(known) if known is not None else max([1.0, *metrics.values(REWARD)])
