"""P12 and its slower relatives: the policy is destroyed, every group gets the same reward, no gradient is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import CLIPPED, ENTROPY, REWARD, ZERO_STD, best_mean, span, tied_rows
from autotrainer.tree.finding import Evidence, Finding, Severity

Row = tuple[int, dict[str, float]]

_START = 3
_WINDOW = 5
_PROMPTS = 20
_LOST = 0.1
_SOLVED = 0.95
_EARLY = 30


class Collapse:
    """The policy lost what it could do. It kills, so it waits until the loss has lasted a whole window.

    Reward lost: over the window it is under a tenth of its best level before, groups without differences are 90 %, and the policy
    shows it too: truncation went up, or entropy left the range from a tenth to three times its start. Policy dead: the reward
    is one constant, no better than at the start and not the maximum, no group differs, and either entropy is under a
    twentieth of its start or everything is truncated that was not. A hard task (reward 0 from the first step) keeps its entropy
    and its lengths; a healthy run that passes through truncation keeps its reward.
    """

    kind: ClassVar[str] = "collapse"
    pathology: ClassVar[str] = "P12"
    needs: ClassVar[frozenset[str]] = frozenset({REWARD, ZERO_STD})
    min_steps: ClassVar[int] = _START + _WINDOW

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most one finding."""
        width = _window(context)
        rows = tied_rows(metrics, context)
        if len(rows) < _START + width:
            return
        window = rows[-width:]
        signs = _signs(metrics, span([step for step, _ in window]))
        found = _reward_lost(rows, width, signs) or _policy_dead(metrics, rows, width, context)
        if found is not None:
            onset, evidence = found
            yield _finding(onset, (*evidence, *signs))


def _window(context: Mapping[str, Any]) -> int:
    """Rows of the window: five, and more where a step holds so few prompts that five could be bad luck."""
    prompts = context.get("prompts_per_step")
    return _WINDOW if not prompts else max(_WINDOW, min(40, ceil(_PROMPTS / int(prompts))))


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
    return tuple(signs)


def _mean(series: list[tuple[int, float]], steps: tuple[int, int]) -> float | None:
    values = [value for step, value in series if steps[0] <= step <= steps[1]]
    return fmean(values) if values else None


def _reward_lost(rows: list[Row], width: int, signs: tuple[Evidence, ...]) -> tuple[int, tuple[Evidence, ...]] | None:
    before, window = rows[:-width], rows[-width:]
    best, _ = best_mean([values[REWARD] for _, values in before], _START)
    level = fmean(values[REWARD] for _, values in window)
    ties = fmean(values[ZERO_STD] for _, values in window)
    if best < 0.05 or level > _LOST * best or ties < 0.9 or not signs:
        return None
    onset = window[0][0]
    for step, values in reversed(rows):
        if values[REWARD] >= 0.5 * best:
            break
        onset = step
    steps = span([step for step, _ in window])
    return onset, (Evidence(REWARD, steps, level, _LOST * best), Evidence(ZERO_STD, steps, ties, 0.9))


def _policy_dead(
    metrics: Metrics, rows: list[Row], width: int, context: Mapping[str, Any]
) -> tuple[int, tuple[Evidence, ...]] | None:
    window = rows[-width:]
    rewards = [values[REWARD] for _, values in window]
    ties = min(values[ZERO_STD] for _, values in window)
    start = fmean(values[REWARD] for _, values in rows[:_START])
    spread = metrics.values("reward_std")[:1]
    allowed = start + 0.5 * (spread[0] if spread else 0.0)
    top = float(context.get("reward_max", 1.0))
    if ties < 0.95 or max(rewards) - min(rewards) > 1e-6 or rewards[-1] > allowed or rewards[-1] >= _SOLVED * top:
        return None
    steps = span([step for step, _ in window])
    proof = _frozen(metrics, steps)
    if proof is None:
        return None
    onset = window[0][0]
    for step, values in reversed(rows):
        if values[ZERO_STD] < 0.95:
            break
        onset = step
    return onset, (Evidence(ZERO_STD, steps, ties, 0.95), Evidence(REWARD, steps, rewards[-1], allowed), proof)


def _frozen(metrics: Metrics, steps: tuple[int, int]) -> Evidence | None:
    entropy, clipped = metrics.series(ENTROPY), metrics.series(CLIPPED)
    now = [value for step, value in entropy if steps[0] <= step <= steps[1]]
    if now and len(entropy) > _START:
        limit = 0.05 * fmean(value for _, value in entropy[:_START])
        if max(now) <= limit:
            return Evidence(ENTROPY, steps, max(now), limit)
    now = [value for step, value in clipped if steps[0] <= step <= steps[1]]
    if now and len(clipped) > _START and min(now) >= 0.95 and clipped[0][1] <= 0.5:
        return Evidence(CLIPPED, steps, min(now), 0.95)
    return None


def _finding(onset: int, evidence: tuple[Evidence, ...]) -> Finding:
    entropy = next((item for item in evidence if item.metric == ENTROPY), None)
    if onset <= _EARLY:
        pathology, cause = "P12", "within the first updates, as a learning rate far too high does it"
    elif entropy is not None and entropy.value > entropy.threshold:
        pathology, cause = "P10", "entropy exploded"
    elif entropy is not None:
        pathology, cause = "P09", "entropy went to zero"
    else:
        pathology, cause = "P11", "the policy drifted away"
    reward = next(item for item in evidence if item.metric == REWARD)
    return Finding(
        kind=Collapse.kind, pathology=pathology, severity=Severity.CRITICAL, confidence=min(0.98, 0.75 + 0.06 * len(evidence)),
        onset_step=onset,
        message=f"the policy collapsed from step {onset}: reward {reward.value:.3g}, no group differs any more; {cause}",
        evidence=_distinct(evidence), confirm="greedy completions of the last checkpoint are all alike or all cut",
        told_from=("P01", "P02", "P03", "P09"), kills=True,
    )


def _distinct(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    seen: dict[str, Evidence] = {}
    for item in evidence:
        seen.setdefault(item.metric, item)
    return tuple(seen.values())
