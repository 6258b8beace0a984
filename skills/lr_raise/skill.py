"""Raise the learning rate of a run that hardly moves."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import measured, moved, number, scaled, still_rises, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.knobs import KNOBS
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

RATE = 1e-6
WANTED_KL = 1e-2
HEALTHY_KL = 0.05


class Skill:
    """Learning rate x 3 to 10 where nothing moved, x 2 where a healthy run rises and has moved little."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where the finding is there and the learning rate can still go up."""
        return (
            _factor(findings) is not None
            and number(recipe, "learning_rate", RATE) < KNOBS["learning_rate"].high
        )

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition from the last checkpoint."""
        factor = _factor(findings)
        assert factor is not None
        return Intervention(
            knobs={"learning_rate": scaled(recipe, "learning_rate", factor, RATE)},
            why=f"the policy has hardly moved: learning rate x {factor:.3g}",
            predictions=(
                Prediction("kl_start", "up", "longer steps"),
                Prediction("reward", "up", "the signal was there, the steps were not"),
            ),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the reward rose; where it was not logged, whether the KL did."""
        risen = moved(before, after, "reward", "up")
        return risen if risen is not None else moved(before, after, "kl_start", "up")


def _factor(findings: Sequence[Finding]) -> float | None:
    idle = treated(findings, "under_training")
    if idle is not None:
        return max(3.0, min(10.0, sqrt(WANTED_KL / max(_kl(idle) or 0.0, 1e-12))))
    healthy = treated(findings, "healthy")
    distance = _kl(healthy) if healthy is not None else None
    return 2.0 if still_rises(findings) and distance is not None and distance < HEALTHY_KL else None


def _kl(finding: Finding) -> float | None:
    start = measured(finding, "kl_start")
    return start if start is not None else measured(finding, "kl")
