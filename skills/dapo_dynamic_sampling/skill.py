"""Groups that tie are dropped and their places filled with other prompts."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import hook, measured, moved, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

HOOK = "hooks/dapo_dynamic_sampling.py:DropAndRefill"
HOPELESS = 0.98


class Skill:
    """A hook on the rollouts."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where groups tie but not all of them, and nothing draws rollouts yet."""
        finding = treated(findings, "zero_advantage")
        drawn = any(item.point == "rollouts" for item in recipe.stages[-1].hooks)
        share = measured(finding, "frac_reward_zero_std") if finding is not None else None
        return finding is not None and not drawn and (share is None or share < HOPELESS)

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition from the last checkpoint."""
        return Intervention(
            hooks=(hook("rollouts", HOOK, rounds=3),),
            why="groups that tie are drawn again with other prompts, three rounds at most",
            predictions=(Prediction("frac_reward_zero_std", "down", "only what could not be refilled ties"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether fewer groups tie."""
        return moved(before, after, "frac_reward_zero_std", "down")
