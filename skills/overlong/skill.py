"""A larger cap where it was too small, a soft penalty where completions no longer end."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import has_hook, hook, measured, moved, number, scaled, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.knobs import KNOBS
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Edge, Prediction

CAP = 512
MOSTLY = 0.6
HOOK = "hooks/overlong.py:SoftOverlong"
WEIGHT, MARGIN = 0.5, 0.2
_FALLS = Prediction("completions/clipped_ratio", "down", "completions end by themselves")


class Skill:
    """Which of the two it is depends on when the truncation began."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where completions are cut and there is room for a larger cap, or no penalty yet."""
        finding = treated(findings, "truncation")
        if finding is None:
            return False
        if finding.pathology != "P03":
            return not has_hook(recipe, HOOK)
        return number(recipe, "max_completion_length", CAP) < KNOBS["max_completion_length"].high

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition with a larger cap, or a repair with the penalty."""
        finding = treated(findings, "truncation")
        assert finding is not None
        if finding.pathology != "P03":
            return Intervention(
                hooks=(hook("rewards", HOOK, weight=WEIGHT, margin=MARGIN),),
                edge=Edge.REPAIR,
                before_onset=True,
                why=f"completions run into the cap since step {finding.onset_step}: running on gets a price",
                predictions=(_FALLS,),
            )
        share = measured(finding, "completions/clipped_ratio") or 0.0
        now = number(recipe, "max_completion_length", CAP)
        cap = max(
            now + 1, float(scaled(recipe, "max_completion_length", 2.0 if share >= MOSTLY else 1.5, CAP))
        )
        return Intervention(
            knobs={"max_completion_length": int(cap)},
            why=f"{share:.0%} are cut from the start: a cap of {cap:.0f} tokens",
            predictions=(_FALLS, Prediction("reward", "up", "finished answers can be right")),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether fewer completions are cut."""
        return moved(before, after, "completions/clipped_ratio", "down")
