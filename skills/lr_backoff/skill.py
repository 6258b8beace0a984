"""Back off the learning rate after the policy was lost or began to drift."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import moved, number, scaled, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.knobs import KNOBS, KnobValue
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding, Severity
from autotrainer.tree.proposal import Edge, Prediction

KINDS = ("collapse", "nonfinite", "drift", "reward_decline")
EARLY = 30
RATE, CLIP = 1e-6, 1.0


class Skill:
    """Learning rate divided by 3, 5 or 10 by how fast and how badly the run was hurt."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where one of the findings is there and the learning rate can still go down."""
        finding = _finding(findings)
        return finding is not None and number(recipe, "learning_rate", RATE) > KNOBS["learning_rate"].low

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A restart from the base after an early collapse, else a repair from before the onset."""
        finding = _finding(findings)
        assert finding is not None
        factor, restart = _dose(finding)
        knobs: dict[str, KnobValue] = {"learning_rate": scaled(recipe, "learning_rate", 1 / factor, RATE)}
        if finding.kind == "nonfinite":
            knobs["max_grad_norm"] = scaled(recipe, "max_grad_norm", 0.5, CLIP)
        return Intervention(
            knobs=knobs,
            edge=Edge.RESTART if restart else Edge.REPAIR,
            from_base=restart,
            before_onset=not restart,
            why=f"{finding.kind} from step {finding.onset_step}: learning rate / {factor:g}"
            + (", again from the base" if restart else ", from before it began"),
            predictions=(
                Prediction("frac_reward_zero_std", "down", "groups differ again"),
                Prediction("reward", "up", "the policy keeps what it could do"),
            ),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the last reward of the child is above that of the run that was hurt."""
        return moved(before, after, "reward", "up")


def _finding(findings: Sequence[Finding]) -> Finding | None:
    return treated([finding for finding in findings if finding.severity is not Severity.INFO], *KINDS)


def _dose(finding: Finding) -> tuple[float, bool]:
    """The divisor of the learning rate, and whether to start again from the base."""
    if finding.kind == "collapse":
        return (10.0, True) if finding.onset_step <= EARLY else (5.0, False)
    if finding.kind == "drift" and finding.severity is Severity.CRITICAL:
        return 5.0, False
    return 3.0, False
