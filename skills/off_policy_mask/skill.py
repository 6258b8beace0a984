"""Sequence-level ratios, and negative completions that the policy has left behind are masked."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import has_hook, hook, moved, number, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Edge, Prediction

HOOK = "hooks/off_policy_mask.py:OffPolicyMask"


class Skill:
    """An advantages hook and one of the trainer's own options."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where a run with several updates a batch declines or drifts."""
        ill = treated(findings, "reward_decline", "drift") is not None
        return ill and number(recipe, "num_iterations", 1) > 1 and not has_hook(recipe, HOOK)

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A repair from before the onset."""
        return Intervention(
            knobs={"importance_sampling_level": "sequence"},
            hooks=(hook("advantages", HOOK, bound=0.5),),
            edge=Edge.REPAIR,
            before_onset=True,
            why="several updates a batch go off-policy: far negative completions are masked",
            predictions=(Prediction("reward", "up", "nothing pushes the policy where it cannot come back"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the reward is higher at the end."""
        return moved(before, after, "reward", "up")
