"""ScriptedSkill: a skill in memory, for tests of planners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotrainer.contract.metrics import Metrics
from autotrainer.library.skill import Intervention, LoadedSkill, SkillCard
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import HookRef, Recipe
from autotrainer.tree.finding import Finding


@dataclass(frozen=True, slots=True)
class ScriptedSkill:
    """Multiplies some knobs, sets others, adds hooks; applies wherever `usable` says."""

    factors: Mapping[str, float] = field(default_factory=dict)
    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    hooks: tuple[HookRef, ...] = ()
    from_base: bool = False
    before_onset: bool = False
    usable: bool = True

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """As scripted."""
        return self.usable

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """The scripted changes."""
        here = recipe.stages[-1].knobs
        scaled = {name: float(f"{float(here[name]) * factor:.3g}") for name, factor in self.factors.items()}
        return Intervention(
            knobs={**scaled, **self.knobs},
            hooks=self.hooks,
            from_base=self.from_base,
            before_onset=self.before_onset,
            why="as scripted",
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Cannot tell."""
        return None


def scripted(skill_id: str, treats: str | tuple[str, ...], code: ScriptedSkill) -> LoadedSkill:
    """The skill with a card."""
    kinds = (treats,) if isinstance(treats, str) else treats
    return LoadedSkill(
        SkillCard(
            id=skill_id,
            name=skill_id,
            paper="",
            family="test",
            kind="knobs",
            treats=kinds,
            requires=(),
            cost="none",
            badge="test",
            folder="",
            body="",
            hook=None,
        ),
        code,
    )
