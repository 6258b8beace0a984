"""P07: what is paid rises while what is wanted falls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import REWARD, thirds, z_change
from autotrainer.tree.finding import Evidence, Finding, Severity

_PROBE = "probe/accuracy"
_Z = 3.0
_FALL = 0.1


class RewardHacking:
    """Finds a reward that rises while the probe falls.

    The reward rises by three standard errors and the probe accuracy, which is not paid, falls by 0.1 or more
    from its best and ends under its first value. Without probe values it cannot tell and says nothing.
    """

    kind: ClassVar[str] = "reward_hacking"
    pathology: ClassVar[str] = "P07"
    needs: ClassVar[frozenset[str]] = frozenset({REWARD, _PROBE})
    min_steps: ClassVar[int] = 20

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most one finding."""
        rewards, probe = metrics.values(REWARD), metrics.series(_PROBE)
        if len(rewards) < self.min_steps or len(probe) < 3:
            return
        early, _, late = thirds(rewards)
        gain = z_change(early, late)
        best_step, best = max(probe[:-1], key=lambda item: item[1])
        now = probe[-1][1]
        if gain < _Z or best - now < _FALL or now >= probe[0][1]:
            return
        yield Finding(
            kind=self.kind,
            pathology=self.pathology,
            severity=Severity.CRITICAL,
            confidence=0.85,
            onset_step=best_step,
            message=f"the reward rises, probe accuracy falls from {best:.3g} to {now:.3g}: it is exploited",
            evidence=(
                Evidence(_PROBE, (best_step, probe[-1][0]), now, best - _FALL),
                Evidence(REWARD, (metrics.rows[0]["step"], metrics.last_step), gain, _Z),
            ),
            confirm="20 completions with a high reward, read against the gold answers",
            told_from=("P08", "P29"),
        )
