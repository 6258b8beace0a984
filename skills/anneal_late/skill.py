"""Shorter steps on a larger batch for a healthy run that no longer rises."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import moved, number, scaled, still_rises
from autotrainer.library.skill import Intervention
from autotrainer.recipe.knobs import KNOBS, KnobValue
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

RATE, PROMPTS = 1e-6, 8


class Skill:
    """Several changes at once, from the last checkpoint."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where the run is healthy, on a plateau, and both rate and batch have room."""
        return (
            still_rises(findings) is False
            and number(recipe, "learning_rate", RATE) > 3 * KNOBS["learning_rate"].low
            and 2 * number(recipe, "prompts_per_step", PROMPTS) <= KNOBS["prompts_per_step"].high
        )

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition."""
        knobs: dict[str, KnobValue] = {
            "learning_rate": scaled(recipe, "learning_rate", 1 / 3, RATE),
            "prompts_per_step": scaled(recipe, "prompts_per_step", 2, PROMPTS),
        }
        if number(recipe, "temperature", 1.0) > 1.0:
            knobs["temperature"] = 1.0
        return Intervention(
            knobs=knobs,
            why="a plateau without a fault: shorter steps on twice the prompts",
            predictions=(
                Prediction("probe/accuracy", "up", "less gradient noise around the same optimum"),
                Prediction("reward", "up", "likewise"),
            ),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether probe accuracy rose; the reward where no probe was logged."""
        risen = moved(before, after, "probe/accuracy", "up")
        return risen if risen is not None else moved(before, after, "reward", "up")
