"""P10 and P11.

The policy leaves the region where its start was good: entropy explodes or the KL runs away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import ENTROPY, REWARD, best_mean, onset, span, thirds, z_change
from autotrainer.tree.finding import Evidence, Finding, Severity

_ROWS = 3
_TIMES = 3.0
_NATS = 0.5
_KL = 1.0
_KL_LOST = 10.0


class Drift:
    """Finds entropy that explodes and KL that runs away.

    Entropy three times its start and half a nat above it over the last rows; or a KL over 1 nat a token while
    the reward does not rise. Single spikes and a drift that pays are no finding.
    """

    kind: ClassVar[str] = "drift"
    pathology: ClassVar[str] = "P10"
    needs: ClassVar[frozenset[str]] = frozenset({REWARD})
    min_steps: ClassVar[int] = 3 * _ROWS

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most two findings: entropy first."""
        if len(metrics) < self.min_steps:
            return
        yield from _entropy(metrics)
        yield from _divergence(metrics)


def _entropy(metrics: Metrics) -> Iterable[Finding]:
    series = metrics.series(ENTROPY)
    if len(series) < 3 * _ROWS:
        return
    start = fmean(value for _, value in series[:_ROWS])
    tail = series[-_ROWS:]
    level, limit = fmean(value for _, value in tail), max(_TIMES * start, start + _NATS)
    if level < limit:
        return
    hurt = _reward_share(metrics) < 0.5
    yield Finding(
        kind=Drift.kind,
        pathology="P10",
        severity=Severity.CRITICAL if hurt else Severity.WARNING,
        confidence=0.9 if hurt else 0.6,
        onset_step=onset(series, lambda nats: nats >= limit),
        message=f"entropy rose from {start:.2g} to {level:.2g} nats"
        + (" and the reward fell with it" if hurt else ""),
        evidence=(Evidence(ENTROPY, span([step for step, _ in tail]), level, limit),),
        confirm="completions of the last step read as word salad",
        told_from=("P11", "P14", "P15"),
    )


def _divergence(metrics: Metrics) -> Iterable[Finding]:
    key = "kl_start" if metrics.values("kl_start") else "kl"
    series = metrics.series(key)
    tail = series[-1:] if key == "kl_start" else series[-_ROWS:]
    if not tail:
        return
    level = fmean(value for _, value in tail)
    rewards = metrics.values(REWARD)
    early, _, late = thirds(rewards)
    gain = z_change(early, late)
    if level < _KL or gain >= 2.0:
        return
    lost = level >= _KL_LOST or _reward_share(metrics) < 0.5
    yield Finding(
        kind=Drift.kind,
        pathology="P11",
        severity=Severity.CRITICAL if lost else Severity.WARNING,
        confidence=0.8 if lost else 0.6,
        onset_step=onset(series, lambda nats: nats >= _KL),
        message=f"the policy is {level:.2g} nats a token from its start and the reward does not rise",
        evidence=(
            Evidence(key, span([step for step, _ in tail]), level, _KL),
            Evidence(REWARD, _whole(metrics), gain, 2.0),
        ),
        confirm="the reward of a checkpoint from before the onset is as high",
        told_from=("P10", "P15", "P22", "P12"),
    )


def _whole(metrics: Metrics) -> tuple[int, int]:
    """First and last step of a run."""
    return metrics.rows[0]["step"], metrics.last_step


def _reward_share(metrics: Metrics) -> float:
    """The reward of the last rows as a share of its best level; 1 where levels say nothing (not positive)."""
    rewards = metrics.values(REWARD)
    width = max(_ROWS, len(rewards) // 10)
    if len(rewards) <= width:
        return 1.0
    best, _ = best_mean(rewards, width)
    return fmean(rewards[-width:]) / best if best > 0 else 1.0
