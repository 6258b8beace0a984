"""Comparisons of scores: paired over items, and over seeds. Differences are shares (0.01 = one point).

Two questions that must not be mixed up. *Is this checkpoint better than that one?* is paired over items (the
spread over seeds does not enter). *Is this recipe better than that one?* needs seeds: two runs that differ by
their seed alone are found different far too often by the first.

Axes: R resamples, S seeds, I items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotrainer.tree.score import Score

ALPHA = 0.05
POWER = 0.8
MIN_SEEDS = 2
NOTHING_PROVABLE = 1.0
RESAMPLES = 2000
_SEED = 20260
"""Bootstraps are seeded, so that equal scores give equal intervals."""
_CHUNK = 2**22


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its two-sided interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SeedTest:
    """Two arms of seed means: difference with its 95 % interval, two-sided p, seeds of the smaller arm."""

    mean: float
    low: float
    high: float
    p: float
    n: int

    def figure(self) -> dict[str, float | int]:
        """The test as a figure of the report."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "p": self.p, "n": self.n}


def paired_difference(one: Score, two: Score, *, confidence: float = 0.95) -> Interval:
    """The mean difference `one - two` over their common items, with the bootstrap's interval over items.

    This is about two checkpoints, not two recipes: it ranks and never claims.

    Raises:
        ValueError: the scores have no common item, or lie on different splits.
    """
    return paired_difference_of_seeds([one], [two], confidence=confidence)


def paired_difference_of_seeds(
    one: Sequence[Score], two: Sequence[Score], *, confidence: float = 0.95
) -> Interval:
    """The difference of the seed-averaged scores of two arms over common items.

    Hierarchical: items are drawn with replacement, the same ones for both arms (paired; percentile
    bootstrap); where an arm has several seeds, each draw is moved by a t-distributed multiple of the standard
    error of its seed means (standard deviation pooled over such arms), since resampling two or three seeds
    would make intervals far too narrow. An arm of one seed counts as fixed, like a base model. Swapping the
    arms changes the sign of mean and interval and nothing else.

    Raises:
        ValueError: an arm is empty, there is no common item, or the splits differ.
    """
    import numpy as np

    one_S_I, two_S_I = _on_common_items(one, two)
    draws_R = _bootstrap_means(one_S_I.mean(0) - two_S_I.mean(0))
    arms = [arm_S_I.mean(1) for arm_S_I in (one_S_I, two_S_I) if len(arm_S_I) > 1]
    if arms:
        moves_R = _seed_moves(arms)
        draws_R = np.concatenate([draws_R + moves_R, draws_R - moves_R])
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws_R, [tail, 1 - tail])
    return Interval(float(one_S_I.mean() - two_S_I.mean()), float(low), float(high))


def _on_common_items(one: Sequence[Score], two: Sequence[Score]) -> tuple[Any, Any]:
    """Each arm's scores as an array S x I."""
    import numpy as np

    if not one or not two:
        raise ValueError("a comparison needs at least one score an arm")
    splits = {score.split for score in (*one, *two)}
    if len(splits) > 1:
        raise ValueError(f"scores of different splits cannot be paired: {', '.join(sorted(splits))}")
    common = sorted(set.intersection(*(set(score.items) for score in (*one, *two))))
    if not common:
        raise ValueError("the scores have no item in common")
    return (
        np.array([[score.items[item] for item in common] for score in one]),
        np.array([[score.items[item] for item in common] for score in two]),
    )


def _bootstrap_means(values_I: Any) -> Any:
    """The means of RESAMPLES draws of all items with replacement."""
    import numpy as np

    rng, count = np.random.default_rng(_SEED), len(values_I)
    rows = max(1, _CHUNK // count)
    sizes = [min(rows, RESAMPLES - first) for first in range(0, RESAMPLES, rows)]
    return np.concatenate([values_I[rng.integers(count, size=(size, count))].mean(1) for size in sizes])


def _seed_moves(arms: Sequence[Any]) -> Any:
    """Absolute errors of the seed-averaged difference: t quantiles, spread evenly, in random order."""
    import numpy as np
    from scipy.special import stdtrit

    freedom = sum(len(means_S) - 1 for means_S in arms)
    pooled = sum((len(means_S) - 1) * means_S.var(ddof=1) for means_S in arms) / freedom
    error = np.sqrt(pooled * sum(1 / len(means_S) for means_S in arms))
    places_R = np.random.default_rng(_SEED + 1).permutation(RESAMPLES)
    return error * stdtrit(freedom, 0.5 + (places_R + 0.5) / (2 * RESAMPLES))


def seed_test(
    one: Sequence[float], two: Sequence[float], *, pooled_with: Sequence[Sequence[float]] = ()
) -> SeedTest:
    """Student's two-sided t-test of the difference of two arms' seed means, with pooled variance.

    `pooled_with` are more arms of the same experiment, whose deviation over seeds is taken to be the same:
    with two or three seeds an arm every degree of freedom counts. Two arms without any spread differ surely
    (p = 0) or not at all (p = 1).

    Raises:
        ValueError: an arm has fewer than two seeds.
    """
    from scipy.special import stdtr, stdtrit

    if min(len(one), len(two)) < MIN_SEEDS:
        raise ValueError(f"a t-test needs {MIN_SEEDS} seeds an arm, not {len(one)} and {len(two)}")
    groups = [group for group in (one, two, *pooled_with) if len(group) >= MIN_SEEDS]
    freedom = sum(len(group) - 1 for group in groups)
    pooled = sum((len(group) - 1) * variance(group) for group in groups) / freedom
    error, mean = sqrt(pooled * (1 / len(one) + 1 / len(two))), fmean(one) - fmean(two)
    n = min(len(one), len(two))
    if error == 0:
        return SeedTest(mean, mean, mean, 1.0 if mean == 0 else 0.0, n)
    half = float(stdtrit(freedom, 1 - ALPHA / 2)) * error
    return SeedTest(mean, mean - half, mean + half, float(2 * stdtr(freedom, -abs(mean) / error)), n)


def provable_gain(seeds: int, deviation: float, *, arms: int = 2, tests: int = 1) -> float:
    """The smallest true gain that a two-sided t-test at 5 % on seed means finds with 80 % power.

    Two arms of `seeds` runs each, or (`arms` 1) one arm against a figure without noise; `deviation` is the
    noise floor, the standard deviation over seeds; with several `tests` the first step of Holm's correction
    counts. 1.0, that is nothing, for one seed.
    """
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    freedom = arms * (seeds - 1)
    if freedom < 1:
        return NOTHING_PROVABLE
    critical = float(t.ppf(1 - ALPHA / (2 * tests), freedom))
    # The chance to reject on the wrong side is below 1e-3 where the power is 80 %.
    noncentrality = brentq(lambda shift: nct.sf(critical, freedom, shift) - POWER, 0.0, 2 * critical + 10)
    return float(min(NOTHING_PROVABLE, noncentrality * deviation * sqrt(arms / seeds)))


def holm_adjusted(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjusted p-values (Holm 1979): at most 1, and in the order of the raw ones."""
    ordered = sorted(p_values, key=lambda name: (p_values[name], name))
    adjusted: dict[str, float] = {}
    highest = 0.0
    for place, name in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - place) * p_values[name]))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def holm(p_values: Mapping[str, float], alpha: float = ALPHA) -> dict[str, bool]:
    """Which hypotheses Holm's procedure rejects at the family-wise level alpha."""
    return {name: value <= alpha for name, value in holm_adjusted(p_values).items()}
