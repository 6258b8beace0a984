"""A length reward within groups, where completions grow into the cap."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import has_hook, hook, moved, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Edge, Prediction

HOOK = "hooks/kimi_length.py:LengthReward"


class Skill:
    """A hook on the rewards."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where completions came to run into the cap during the run, not from its start."""
        finding = treated(findings, "truncation")
        return finding is not None and finding.pathology != "P03" and not has_hook(recipe, HOOK)

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A repair from before the onset."""
        return Intervention(
            hooks=(hook("rewards", HOOK, weight=0.2),),
            edge=Edge.REPAIR,
            before_onset=True,
            why="completions grow into the cap: within a group, short right answers pay more",
            predictions=(Prediction("completions/mean_length", "down", "long right answers lose"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether completions are shorter."""
        return moved(before, after, "completions/mean_length", "down")
