"""An entropy bonus over the likely tokens, where entropy collapses."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import has_hook, hook, moved, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Edge, Prediction

HOOK = "hooks/aent.py:ClampedEntropy"


class Skill:
    """A hook on the loss."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where entropy collapses and the term is not there yet."""
        return treated(findings, "entropy_collapse") is not None and not has_hook(recipe, HOOK)

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A repair from before the collapse."""
        return Intervention(
            hooks=(hook("loss", HOOK, clamp=0.3, coefficient=0.0002),),
            edge=Edge.REPAIR,
            before_onset=True,
            why="an entropy bonus over the likely tokens, so that rare ones cannot earn it",
            predictions=(Prediction("entropy", "up", "likely tokens are kept apart"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the entropy is higher."""
        return moved(before, after, "entropy", "up")
