"""A reward that rose or held and then fell, before anything worse.

The slow form of a learning rate too high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import REWARD, best_mean, z_change
from autotrainer.tree.finding import Evidence, Finding, Severity

_Z = 4.0
_DROP = 0.15


class RewardDecline:
    """Finds a reward that fell from its best level.

    The last sixth of the run lies under its best stretch by four standard errors and by 15 % of that level.

    Four and more (the shorter the stretch), because the best of many stretches is high by luck too. Worse
    than the start of the run is critical.
    """

    kind: ClassVar[str] = "reward_decline"
    pathology: ClassVar[str] = "P11"
    needs: ClassVar[frozenset[str]] = frozenset({REWARD})
    min_steps: ClassVar[int] = 20

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most one finding; its evidence is the level of the last stretch."""
        series = metrics.series(REWARD)
        if len(series) < self.min_steps:
            return
        values = [value for _, value in series]
        width = max(8, len(values) // 6)
        best, index = best_mean(values, width)
        last, peak = values[-width:], values[index : index + width]
        level = fmean(last)
        needed = _Z + 8.0 / width
        overlap = index + width > len(values) - width
        if overlap or best <= 0 or best - level < _DROP * best or z_change(peak, last) > -needed:
            return
        worse = z_change(values[:width], last) <= -needed
        onset = series[index + width][0]
        yield Finding(
            kind=self.kind,
            pathology=self.pathology,
            severity=Severity.CRITICAL if worse else Severity.WARNING,
            confidence=0.8,
            onset_step=onset,
            message=f"the reward fell from {best:.3g} (until step {onset}) to {level:.3g}"
            + (", below the start of the run" if worse else ""),
            evidence=(Evidence(REWARD, (series[-width][0], series[-1][0]), level, (1 - _DROP) * best),),
            confirm="probe accuracy of the checkpoint before the onset is higher",
            told_from=("P02", "P05", "P09", "P10", "P29"),
        )
