"""The trainer's own entropy bonus, with a coefficient that follows a target."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import has_hook, hook, moved, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Edge, Prediction

HOOK = "hooks/adaptive_entropy.py:EntropyTarget"


class Skill:
    """A callback on the entropy coefficient."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where entropy collapses and the controller is not there yet."""
        return treated(findings, "entropy_collapse") is not None and not has_hook(recipe, HOOK)

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A repair from before the collapse."""
        return Intervention(
            knobs={"entropy_coef": 0.001},
            hooks=(hook("callbacks", HOOK, share=1.0, delta=0.0005, ceiling=0.01),),
            edge=Edge.REPAIR,
            before_onset=True,
            why="an entropy bonus that follows a target holds the entropy where it was before it fell",
            predictions=(Prediction("entropy", "up", "the bonus grows while entropy is below the target"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the entropy is higher."""
        return moved(before, after, "entropy", "up")
