"""Twice the rollouts per prompt, half the prompts."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import moved, number, still_rises, treated, within
from autotrainer.library.skill import Intervention
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

GROUP, PROMPTS = 8, 8
MOST = 128


class Skill:
    """Groups grow at an equal batch."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where groups tie or a healthy run no longer rises, and the group can double at an equal batch."""
        wanted = treated(findings, "zero_advantage") is not None or still_rises(findings) is False
        prompts = int(number(recipe, "prompts_per_step", PROMPTS))
        return (
            wanted
            and 2 * number(recipe, "num_generations", GROUP) <= MOST
            and (prompts == 1 or prompts % 2 == 0)
        )

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition from the last checkpoint."""
        group, prompts = number(recipe, "num_generations", GROUP), number(recipe, "prompts_per_step", PROMPTS)
        knobs: dict[str, KnobValue] = {"num_generations": within("num_generations", 2 * group)}
        if prompts > 1:
            knobs["prompts_per_step"] = within("prompts_per_step", prompts / 2)
        return Intervention(
            knobs=knobs,
            why=f"groups of {2 * group:g} tie less often than groups of {group:g}",
            predictions=(Prediction("groups/mixed", "up", "larger groups hold both outcomes more often"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether more groups are mixed."""
        mixed = moved(before, after, "groups/mixed", "up")
        return mixed if mixed is not None else moved(before, after, "frac_reward_zero_std", "down")
