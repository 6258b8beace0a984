"""P12 and its slower relatives.

The policy is destroyed, every group gets the same reward, no gradient is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import (
    CLIPPED,
    ENTROPY,
    REWARD,
    ZERO_STD,
    best_mean,
    onset,
    span,
    tied_rows,
)
from autotrainer.tree.finding import Evidence, Finding, Severity

Row = tuple[int, dict[str, float]]

_START = 3
_WINDOW = 5
_PROMPTS = 40
_SOME = 0.05
_LOST, _SUNK, _SUNK_FAR = 0.1, 0.25, 0.35
_FAR = 1.0
_DISTANCES = ("kl_start", "kl")
_SOLVED = 0.95
_EARLY = 30


class Collapse:
    """Finds a policy that lost what it could do.

    It kills, so it waits until the loss has lasted a whole window: 5 rows,
    or 40 prompts where a row holds fewer than 8.

    Reward lost: over the window it is under a tenth of its best level before, groups without differences are
    90 %, and the policy shows it too: truncation went up, entropy left the range from a tenth to three times
    its start, or the KL from the start is over 1 nat a token. Reward sunk: over two windows it is under a
    third of its best level and the policy that far away, or under a quarter and the share of ties 0.4 above
    its start. Policy dead: the reward is one constant, no better than at the start and not the maximum, no
    group differs, and entropy is under a twentieth of its start or everything is truncated that was not. A
    hard task (reward 0 from the first step) has nothing to lose and keeps its entropy and lengths; a healthy
    run that passes through truncation keeps its reward.
    """

    kind: ClassVar[str] = "collapse"
    pathology: ClassVar[str] = "P12"
    needs: ClassVar[frozenset[str]] = frozenset({REWARD, ZERO_STD})
    min_steps: ClassVar[int] = _START + _WINDOW

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most one finding."""
        rows = tied_rows(metrics, context)
        if len(rows) < self.min_steps:
            return
        width = _window(rows, context)
        signs = _signs(metrics, span([step for step, _ in rows[-width:]]))
        found = (
            _reward_lost(rows, width, signs)
            or _reward_sunk(rows, width, signs)
            or _policy_dead(metrics, rows, width, context)
        )
        if found is not None:
            begin, evidence = found
            yield _finding(begin, (*evidence, *signs))


def _window(rows: list[Row], context: Mapping[str, Any]) -> int:
    """Rows of the window: five, and more where a row holds so few prompts that five could be bad luck."""
    prompts = int(context.get("prompts_per_step") or _prompts([values[ZERO_STD] for _, values in rows]))
    return max(_WINDOW, ceil(_PROMPTS / prompts))


def _prompts(shares: list[float]) -> int:
    """The fewest prompts a row that shares of tied groups like these can come from.

    All are multiples of 1 / n.
    """
    for number in range(1, _PROMPTS):
        if all(abs(share * number - round(share * number)) < 0.01 for share in shares):
            return number
    return _PROMPTS


def _signs(metrics: Metrics, steps: tuple[int, int]) -> tuple[Evidence, ...]:
    """What the policy itself shows in the window, against the first rows."""
    signs = []
    clipped, entropy = metrics.series(CLIPPED), metrics.series(ENTROPY)
    if len(clipped) > _START:
        level = _mean(clipped, steps)
        if level is not None and level >= 0.8 and fmean(value for _, value in clipped[:_START]) <= 0.5:
            signs.append(Evidence(CLIPPED, steps, level, 0.8))
    if len(entropy) > _START:
        level, start = _mean(entropy, steps), fmean(value for _, value in entropy[:_START])
        if level is not None and level <= 0.1 * start:
            signs.append(Evidence(ENTROPY, steps, level, 0.1 * start))
        elif level is not None and level >= 3.0 * start:
            signs.append(Evidence(ENTROPY, steps, level, 3.0 * start))
    key = _DISTANCES[0] if metrics.values(_DISTANCES[0]) else _DISTANCES[1]
    distance = [value for step, value in metrics.series(key) if step <= steps[1]][-_START:]
    if key == _DISTANCES[0]:
        distance = distance[-1:]
    if distance and fmean(distance) >= _FAR:
        signs.append(Evidence(key, steps, fmean(distance), _FAR))
    return tuple(signs)


def _mean(series: list[tuple[int, float]], steps: tuple[int, int]) -> float | None:
    values = [value for step, value in series if steps[0] <= step <= steps[1]]
    return fmean(values) if values else None


def _reward_lost(
    rows: list[Row], width: int, signs: tuple[Evidence, ...]
) -> tuple[int, tuple[Evidence, ...]] | None:
    """Next to nothing is left of the reward, no group differs, and the policy shows it."""
    if len(rows) < _START + width:
        return None
    best, level, ties, steps = _levels(rows, width, width)
    if best < _SOME or level > _LOST * best or ties < 0.9 or not signs:
        return None
    return _fall(rows, best), (
        Evidence(REWARD, steps, level, _LOST * best),
        Evidence(ZERO_STD, steps, ties, 0.9),
    )


def _reward_sunk(
    rows: list[Row], width: int, signs: tuple[Evidence, ...]
) -> tuple[int, tuple[Evidence, ...]] | None:
    """Most of the reward is gone for twice as long; the policy is far away or its groups came to tie."""
    if len(rows) < 3 * width:
        return None
    best, level, ties, steps = _levels(rows, 2 * width, width)
    start = fmean(values[ZERO_STD] for _, values in rows[:_START])
    far = any(sign.metric in _DISTANCES for sign in signs)
    tied = ties >= start + 0.4
    limit = (_SUNK_FAR if far else _SUNK) * best
    if best < _SOME or level > limit or not (far or tied):
        return None
    evidence = [Evidence(REWARD, steps, level, limit)]
    if tied:
        evidence.append(Evidence(ZERO_STD, steps, ties, start + 0.4))
    return _fall(rows, best), tuple(evidence)


def _levels(rows: list[Row], width: int, stretch: int) -> tuple[float, float, float, tuple[int, int]]:
    """Best reward over `stretch` rows before the last `width`; their mean reward and ties; their steps."""
    before, window = rows[:-width], rows[-width:]
    best, _ = best_mean([values[REWARD] for _, values in before], stretch)
    level = fmean(values[REWARD] for _, values in window)
    return best, level, fmean(values[ZERO_STD] for _, values in window), span([step for step, _ in window])


def _fall(rows: list[Row], best: float) -> int:
    return onset([(step, values[REWARD]) for step, values in rows], lambda reward: reward < 0.5 * best)


def _policy_dead(
    metrics: Metrics, rows: list[Row], width: int, context: Mapping[str, Any]
) -> tuple[int, tuple[Evidence, ...]] | None:
    """One constant reward, no differences in any group, and a policy that has stopped or runs on and on."""
    return _constant(metrics, rows, _WINDOW, context, _certain) or _constant(
        metrics, rows, min(width, 2 * _WINDOW), context, _endless
    )


def _constant(
    metrics: Metrics,
    rows: list[Row],
    width: int,
    context: Mapping[str, Any],
    proof: Callable[[Metrics, tuple[int, int]], Evidence | None],
) -> tuple[int, tuple[Evidence, ...]] | None:
    window = rows[-width:]
    rewards = [values[REWARD] for _, values in window]
    ties = min(values[ZERO_STD] for _, values in window)
    start = fmean(values[REWARD] for _, values in rows[:_START])
    spread = metrics.values("reward_std")[:1]
    allowed = start + 0.5 * (spread[0] if spread else 0.0)
    top = float(context.get("reward_max", 1.0))
    if (
        ties < 0.95
        or max(rewards) - min(rewards) > 1e-6
        or rewards[-1] > allowed
        or rewards[-1] >= _SOLVED * top
    ):
        return None
    steps = span([step for step, _ in window])
    proven = proof(metrics, steps)
    if proven is None:
        return None
    begin = onset([(step, values[ZERO_STD]) for step, values in rows], lambda share: share >= 0.95, gap=1)
    return begin, (
        Evidence(ZERO_STD, steps, ties, 0.95),
        Evidence(REWARD, steps, rewards[-1], allowed),
        proven,
    )


def _certain(metrics: Metrics, steps: tuple[int, int]) -> Evidence | None:
    """Entropy under a twentieth of its start all through the steps."""
    series = metrics.series(ENTROPY)
    now = [value for step, value in series if steps[0] <= step <= steps[1]]
    if not now or len(series) <= _START:
        return None
    limit = 0.05 * fmean(value for _, value in series[:_START])
    return Evidence(ENTROPY, steps, max(now), limit) if max(now) <= limit else None


def _endless(metrics: Metrics, steps: tuple[int, int]) -> Evidence | None:
    """Everything cut all through the steps, though not at the start."""
    series = metrics.series(CLIPPED)
    now = [value for step, value in series if steps[0] <= step <= steps[1]]
    if not now or len(series) <= _START or min(now) < 0.95 or series[0][1] > 0.5:
        return None
    return Evidence(CLIPPED, steps, min(now), 0.95)


def _finding(begin: int, evidence: tuple[Evidence, ...]) -> Finding:
    entropy = next((item for item in evidence if item.metric == ENTROPY), None)
    if begin <= _EARLY:
        pathology, cause = "P12", "within the first updates, as a learning rate far too high does it"
    elif entropy is not None and entropy.value > entropy.threshold:
        pathology, cause = "P10", "entropy exploded"
    elif entropy is not None:
        pathology, cause = "P09", "entropy went to zero"
    else:
        pathology, cause = "P11", "the policy drifted away"
    reward = next(item for item in evidence if item.metric == REWARD)
    return Finding(
        kind=Collapse.kind,
        pathology=pathology,
        severity=Severity.CRITICAL,
        confidence=min(0.98, 0.75 + 0.06 * len(evidence)),
        onset_step=begin,
        message=f"the policy collapsed from step {begin}: reward {reward.value:.3g}; {cause}",
        evidence=_distinct(evidence),
        confirm="greedy completions of the last checkpoint are all alike or all cut",
        told_from=("P01", "P02", "P03", "P09"),
        kills=True,
    )


def _distinct(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    seen: dict[str, Evidence] = {}
    for item in evidence:
        seen.setdefault(item.metric, item)
    return tuple(seen.values())
