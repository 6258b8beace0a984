"""Advantages for groups that tie, by verdict and token entropy."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import has_hook, hook, moved, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

HOOK = "hooks/rl_zvp.py:ZeroVariance"
SCALE = 0.1


class Skill:
    """A hook on the advantages."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where groups tie and the hook is not there yet."""
        return treated(findings, "zero_advantage") is not None and not has_hook(recipe, HOOK)

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition from the last checkpoint."""
        return Intervention(
            hooks=(hook("advantages", HOOK, scale=SCALE),),
            why="groups that tie get a direction from their verdict, spread over tokens by entropy",
            predictions=(
                Prediction("grad_norm", "up", "steps whose groups all tie have a gradient"),
                Prediction("groups/mixed", "up", "all-wrong groups are pushed off what they are certain of"),
            ),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the gradient norm rose."""
        return moved(before, after, "grad_norm", "up")
