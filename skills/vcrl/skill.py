"""Prompts whose groups vary, instead of those that are always or never solved."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import has_hook, hook, moved, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

HOOK = "hooks/vcrl.py:VarianceSampler"


class Skill:
    """A hook on the sampler."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where groups tie and the sampler is not there yet."""
        return treated(findings, "zero_advantage") is not None and not has_hook(recipe, HOOK)

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition from the last checkpoint."""
        return Intervention(
            hooks=(hook("sampler", HOOK, threshold=0.3, share=0.5),),
            why="prompts that are always or never solved give their place to those that are sometimes solved",
            predictions=(
                Prediction("frac_reward_zero_std", "down", "fewer groups tie"),
                Prediction("groups/mixed", "up", "half-solved prompts come more often"),
            ),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether fewer groups tie."""
        return moved(before, after, "frac_reward_zero_std", "down")
