"""More draws for prompts that have shown only one outcome."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import hook, moved, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

HOOK = "hooks/reinforce_ada.py:AdaptiveDraws"


class Skill:
    """A hook on the rollouts."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where groups tie and nothing draws rollouts yet."""
        drawn = any(item.point == "rollouts" for item in recipe.stages[-1].hooks)
        return treated(findings, "zero_advantage") is not None and not drawn

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition from the last checkpoint."""
        return Intervention(
            hooks=(hook("rollouts", HOOK, rounds=3),),
            why="prompts that have shown one outcome are drawn again, three rounds at most",
            predictions=(Prediction("frac_reward_zero_std", "down", "rare outcomes are found"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether fewer groups tie."""
        return moved(before, after, "frac_reward_zero_std", "down")
