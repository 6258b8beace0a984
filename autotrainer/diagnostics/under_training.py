"""P13: the run goes on and nothing moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import GRAD_NORM, REWARD, ZERO_STD, is_flat, span, thirds, z_change
from autotrainer.tree.finding import Evidence, Finding, Severity

_KL = 1e-3
_FLAT = 2.0
_STEPS = 30


class UnderTraining:
    """After 30 steps the policy is where it started (KL under 1e-3) and the reward flat within its noise."""

    kind: ClassVar[str] = "under_training"
    pathology: ClassVar[str] = "P13"
    needs: ClassVar[frozenset[str]] = frozenset({REWARD})
    min_steps: ClassVar[int] = 8

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most one finding; its first evidence is the KL, under `kl_start` or `kl`."""
        rewards = metrics.values(REWARD)
        key = "kl_start" if metrics.values("kl_start") else "kl"
        distances = metrics.series(key)
        if len(rewards) < self.min_steps or metrics.last_step < _STEPS or not distances:
            return
        recent = distances[-1:] if key == "kl_start" else distances[-5:]
        distance = fmean(value for _, value in recent)
        early, _, late = thirds(rewards)
        flat, change = is_flat(early, late), z_change(early, late)
        ties, gradients = metrics.values(ZERO_STD), metrics.values(GRAD_NORM)
        signal = not ties or fmean(ties) < 0.9
        idle = bool(gradients) and not any(gradients)
        if distance >= _KL or recent[-1][0] < _STEPS or not flat or not signal or idle:
            return
        rate = context.get("learning_rate")
        yield Finding(
            kind=self.kind,
            pathology=self.pathology,
            severity=Severity.WARNING,
            confidence=0.85,
            onset_step=metrics.rows[0]["step"],
            message=f"nothing moved in {metrics.last_step} steps: KL {distance:.2g}, reward flat within noise"
            + (f", at learning rate {rate:g}" if rate is not None else ""),
            evidence=(
                Evidence(key, span([step for step, _ in recent]), distance, _KL),
                Evidence(REWARD, (metrics.rows[0]["step"], metrics.last_step), change, _FLAT),
            ),
            confirm="a run at three times the learning rate moves the KL about ninefold",
            told_from=("P01", "P17", "P28"),
        )
