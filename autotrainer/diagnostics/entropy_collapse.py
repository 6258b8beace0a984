"""P09: the policy became certain before it became good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import (
    ENTROPY,
    GRAD_NORM,
    REWARD,
    ZERO_STD,
    onset,
    reward_top,
    span,
    z_change,
)
from autotrainer.tree.finding import Evidence, Finding, Severity

_TAIL = 10
_FLOOR = 0.05
_SHARE = 0.1
_GOOD = 0.7


class EntropyCollapse:
    """Finds a policy that is certain and poor.

    Entropy under 0.05 nats (or a tenth of its start), the reward flat and below seven tenths of the maximum,
    and little left to learn from: groups tie or the gradient is under a hundredth of its start.

    The level alone is no fault: good runs end at 0.03 to 0.25 nats with a high reward.
    """

    kind: ClassVar[str] = "entropy_collapse"
    pathology: ClassVar[str] = "P09"
    needs: ClassVar[frozenset[str]] = frozenset({ENTROPY, REWARD})
    min_steps: ClassVar[int] = 2 * _TAIL

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most one finding."""
        series, rewards = metrics.series(ENTROPY), metrics.values(REWARD)
        if len(series) < self.min_steps or len(rewards) < self.min_steps:
            return
        limit = max(_FLOOR, _SHARE * fmean(value for _, value in series[:3]))
        tail = series[-_TAIL:]
        level = fmean(value for _, value in tail)
        reward, goal = fmean(rewards[-_TAIL:]), _GOOD * reward_top(metrics, context)
        change = z_change(rewards[-2 * _TAIL : -_TAIL], rewards[-_TAIL:])
        spent = _spent(metrics)
        if level > limit or reward >= goal or change >= 2.0 or spent is None:
            return
        steps = span([step for step, _ in tail])
        yield Finding(
            kind=self.kind,
            pathology=self.pathology,
            severity=Severity.WARNING,
            confidence=0.8,
            onset_step=min(steps[0], onset(series, lambda nats: nats <= limit)),
            message=f"entropy {level:.2g} nats, the reward stays at {reward:.3g}: exploration stopped",
            evidence=(Evidence(ENTROPY, steps, level, limit), Evidence(REWARD, steps, reward, goal), spent),
            confirm="completions of one prompt are equal word for word",
            told_from=("P05", "P12"),
        )


def _spent(metrics: Metrics) -> Evidence | None:
    ties, gradients = metrics.series(ZERO_STD)[-_TAIL:], metrics.series(GRAD_NORM)
    if ties and (level := fmean(value for _, value in ties)) >= 0.5:
        return Evidence(ZERO_STD, span([step for step, _ in ties]), level, 0.5)
    if len(gradients) < 2 * _TAIL:
        return None
    start, tail = fmean(value for _, value in gradients[:_TAIL]), gradients[-_TAIL:]
    level = fmean(value for _, value in tail)
    return (
        Evidence(GRAD_NORM, span([step for step, _ in tail]), level, 0.01 * start)
        if level <= 0.01 * start
        else None
    )
