"""Anchor a drifting policy to the base model with a KL penalty."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import moved, number, treated, within
from autotrainer.library.skill import Intervention
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Edge, Prediction

KINDS = ("drift", "reward_decline", "reward_hacking")
FIRST = 0.04
MOST = 0.5


class Skill:
    """KL coefficient 0.04, or doubled where there is one."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where one of the findings is there and the penalty is not strong already."""
        return treated(findings, *KINDS) is not None and number(recipe, "beta", 0.0) < MOST

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A repair from before the onset."""
        finding = treated(findings, *KINDS)
        assert finding is not None
        beta = within("beta", min(MOST, max(FIRST, 2 * number(recipe, "beta", 0.0))))
        return Intervention(
            knobs={"beta": beta},
            edge=Edge.REPAIR,
            before_onset=True,
            why=f"{finding.kind} from step {finding.onset_step}: KL penalty {beta} to the base model",
            predictions=(
                Prediction("kl_start", "down", "the penalty grows with the distance"),
                Prediction("probe/accuracy", "up", "what drifted away is kept"),
            ),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the child stayed closer to its start."""
        return moved(before, after, "kl_start", "down")
