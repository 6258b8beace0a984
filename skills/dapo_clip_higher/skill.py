"""Clip higher where the clip binds; an entropy bonus and more temperature where it cannot."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import measured, moved, number, treated, within
from autotrainer.library.skill import Intervention
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

EPSILON_HIGH, EPSILON_STEP, EPSILON_MOST = 0.28, 0.1, 0.6
BONUS, BONUS_MOST = 0.003, 0.02
HOTTER, HOTTEST = 0.2, 1.2
UNSOLVED = 0.05


class Skill:
    """More exploration, by the lever that works for the number of updates a batch."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where the policy is too certain (not where nothing is solved) and a lever is left."""
        return _finding(findings) is not None and bool(_changes(recipe))

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """A transition from the last checkpoint."""
        finding = _finding(findings)
        assert finding is not None
        knobs = _changes(recipe)
        way = (
            "a higher upper clip bound"
            if "epsilon_high" in knobs
            else "an entropy bonus and more temperature"
        )
        return Intervention(
            knobs=knobs,
            why=f"{finding.kind}: {way} so that unlikely tokens can grow",
            predictions=(
                Prediction("entropy", "up", "exploration is no longer cut off"),
                Prediction("frac_reward_zero_std", "down", "completions of one prompt differ again"),
            ),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether entropy rose."""
        return moved(before, after, "entropy", "up")


def _finding(findings: Sequence[Finding]) -> Finding | None:
    finding = treated(findings, "entropy_collapse", "zero_advantage")
    if finding is not None and finding.kind == "zero_advantage":
        reward = measured(finding, "reward")
        return finding if reward is not None and reward > UNSOLVED else None
    return finding


def _changes(recipe: Recipe) -> dict[str, KnobValue]:
    if number(recipe, "num_iterations", 1) > 1:
        now = number(recipe, "epsilon_high", number(recipe, "epsilon", 0.2))
        wanted = EPSILON_HIGH if now < EPSILON_HIGH else now + EPSILON_STEP
        return {"epsilon_high": within("epsilon_high", wanted)} if wanted <= EPSILON_MOST else {}
    changes: dict[str, KnobValue] = {}
    bonus, heat = number(recipe, "entropy_coef", 0.0), number(recipe, "temperature", 1.0)
    if bonus < BONUS_MOST:
        changes["entropy_coef"] = within("entropy_coef", min(BONUS_MOST, max(BONUS, 2 * bonus)))
    if heat < HOTTEST:
        changes["temperature"] = within("temperature", min(HOTTEST, heat + HOTTER))
    return changes
