"""Advantages with the group's mean and the batch's deviation, and the token-level loss."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction


class Skill:
    """Two of the trainer's own options."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where the run is healthy and does not scale by the batch yet."""
        scale = recipe.stages[-1].knobs.get("scale_rewards", "group")
        return treated(findings, "healthy") is not None and scale != "batch"

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition from the last checkpoint."""
        return Intervention(
            knobs={"scale_rewards": "batch", "loss_type": "dapo"},
            why="groups that are nearly solved no longer outweigh the others",
            predictions=(Prediction("grad_norm", "flat", "no group has a tiny deviation to divide by"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the gradient norm varies less, relative to its mean."""
        old, new = _variation(before), _variation(after)
        return None if old is None or new is None else new < old


def _variation(metrics: Metrics) -> float | None:
    norms = metrics.values("grad_norm")
    return pstdev(norms) / fmean(norms) if len(norms) >= 10 and fmean(norms) > 0 else None
