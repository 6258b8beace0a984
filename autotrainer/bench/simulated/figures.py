"""Figures of a tournament: probability of improvement, regret, area under the best so far, time to careful.

Probability of improvement is that of Agarwal et al., Deep RL at the edge of the statistical precipice (2021):
over surfaces, the mean chance that a run of one tuner is above a run of the other on the same surface, ties
one half. Here runs are paired by surface and seed, and intervals are bootstrapped within each family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

RESAMPLES = 2000
_SEED = 7
Row = Mapping[str, Any]
Case = tuple[str, int]
"""Family and seed."""


def by_case(rows: Sequence[Row], tuner: str) -> dict[Case, Row]:
    """A tuner's rows by case."""
    return {(row["family"], row["seed"]): row for row in rows if row["tuner"] == tuner}


def figure(
    values: Mapping[Case, float], middle: Callable[[Sequence[float]], float] = fmean
) -> dict[str, Any]:
    """The middle of the families' middles; its bootstrap interval redraws cases within each family."""
    import numpy as np

    families: dict[str, list[float]] = {}
    for (family, _), value in values.items():
        families.setdefault(family, []).append(value)
    rng = np.random.default_rng(_SEED)
    if middle is median:
        draws = [
            float(np.median(np.concatenate([rng.choice(group, len(group)) for group in families.values()])))
            for _ in range(RESAMPLES)
        ]
        point = float(median(values.values()))
    else:
        drawn = [
            rng.choice(group, (RESAMPLES, len(group))).mean(1) for group in map(np.array, families.values())
        ]
        draws = list(np.mean(drawn, axis=0))
        point = fmean(fmean(group) for group in families.values())
    low, high = np.quantile(draws, [0.025, 0.975])
    name = "median" if middle is median else "mean"
    return {name: point, "low": float(low), "high": float(high), "n": len(values)}


def probability_of_improvement(rows: Sequence[Row], ours: str, other: str) -> dict[str, Any]:
    """How often our tuner ends above the other on the same case."""
    mine, theirs = by_case(rows, ours), by_case(rows, other)
    return figure(
        {case: _above(mine[case]["final"], theirs[case]["final"]) for case in mine if case in theirs}
    )


def _above(one: float, two: float) -> float:
    return 1.0 if one > two else 0.5 if one == two else 0.0


def regret(rows: Sequence[Row], tuner: str, best: Mapping[Case, float]) -> dict[str, Any]:
    """The share of the best known gain over the base that a tuner misses; a lost one misses more than all."""
    found = by_case(rows, tuner)
    return figure({case: _share(row, best[case], row["final"]) for case, row in found.items()})


def _share(row: Row, best: float, level: float) -> float:
    return (best - level) / max(0.02, best - float(row["base"]))


def area(rows: Sequence[Row], tuner: str, best: Mapping[Case, float]) -> dict[str, Any]:
    """Mean over the search's time of the share of the best known gain that the best node by then holds."""
    found = by_case(rows, tuner)
    return figure({case: _area(row, best[case]) for case, row in found.items()})


def _area(row: Row, best: float) -> float:
    end, total, level, since = float(row["search_s"]), 0.0, row["base"], 0.0
    for when, value in [*row["curve"], (end, None)]:
        total += (1 - _share(row, best, level)) * (min(when, end) - since)
        since, level = min(when, end), level if value is None else value
    return total / end if end > 0 else 0.0


def time_to(rows: Sequence[Row], tuner: str, reference: str) -> dict[str, Any]:
    """Time until a tuner holds the reference's final score, over the reference's own time until then; median.

    A tuner that never does is counted with twice the whole search.
    """
    mine, theirs = by_case(rows, tuner), by_case(rows, reference)
    values = {}
    for case in mine.keys() & theirs.keys():
        goal = theirs[case]["final"]
        own = _reaches(theirs[case], goal)
        values[case] = _reaches(mine[case], goal) / own if own > 0 else 1.0
    return figure(values, median)


def _reaches(row: Row, goal: float) -> float:
    return float(next((when for when, level in row["curve"] if level >= goal), 2 * row["search_s"]))


def best_known(rows: Sequence[Row]) -> dict[Case, float]:
    """The best final of any tuner and any node that was best on dev on the way, by case."""
    found: dict[Case, float] = {}
    for row in rows:
        case = (row["family"], row["seed"])
        top = max([row["final"], row["base"], *(level for _, level in row["curve"])])
        found[case] = max(found.get(case, 0.0), top)
    return found


def relative_gain(rows: Sequence[Row], ours: str, other: str) -> dict[str, Any]:
    """Median over cases of our gain over the base model relative to the other's final, as a share."""
    mine, theirs = by_case(rows, ours), by_case(rows, other)
    return figure(
        {
            case: (mine[case]["final"] - theirs[case]["final"]) / max(0.02, theirs[case]["final"])
            for case in mine.keys() & theirs.keys()
        },
        median,
    )
