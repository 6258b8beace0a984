"""Not a pathology: a run without one, and whether it still rises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import REWARD, thirds, z_change
from autotrainer.tree.finding import Evidence, Finding, Severity

_RISES = 2.0


class Healthy:
    """Says whether the reward of a run still rises.

    The reward of the last third against the middle third; triage drops it where anything is wrong.

    Evidence: first `reward`, the z-score of that change with the threshold over which the run still rises;
    then, where logged, `kl_start` or `kl` and `probe/accuracy`, each with its first value as the threshold.
    """

    kind: ClassVar[str] = "healthy"
    pathology: ClassVar[str] = "P30"
    needs: ClassVar[frozenset[str]] = frozenset({REWARD})
    min_steps: ClassVar[int] = 9

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """One finding, of severity info."""
        series = metrics.series(REWARD)
        if len(series) < self.min_steps:
            return
        early, middle, late = thirds([value for _, value in series])
        slope = z_change(middle, late)
        state = "still rises" if slope > _RISES else "has reached a plateau"
        yield Finding(
            kind=self.kind,
            pathology=self.pathology,
            severity=Severity.INFO,
            confidence=0.7,
            onset_step=series[0][0],
            message=f"nothing wrong: reward from {fmean(early):.3g} to {fmean(late):.3g}; it {state}",
            evidence=(
                Evidence(REWARD, (series[len(early)][0], series[-1][0]), slope, _RISES),
                *_levels(metrics),
            ),
            confirm="the score on dev is above the parent's",
            told_from=("P09", "P13"),
        )


def _levels(metrics: Metrics) -> Iterable[Evidence]:
    distance = "kl_start" if metrics.values("kl_start") else "kl"
    for key in (distance, "probe/accuracy"):
        series = metrics.series(key)
        if series:
            yield Evidence(key, (series[0][0], series[-1][0]), series[-1][1], series[0][1])
