"""Skill: a published or learned intervention; what skills/<folder>/skill.py has to define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autotrainer.contract.metrics import Metrics
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import HookRef, Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Edge, Prediction


@dataclass(frozen=True, slots=True)
class Intervention:
    """What a skill wants changed: knobs of the last stage, hooks added to it, and how to start.

    `from_base` asks for a restart from the base model instead of the node's last checkpoint; `before_onset`
    for the last checkpoint before the finding's onset (the base where there is none).
    """

    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    hooks: tuple[HookRef, ...] = ()
    edge: Edge = Edge.TRANSITION
    from_base: bool = False
    before_onset: bool = False
    why: str = ""
    predictions: tuple[Prediction, ...] = ()


class Skill(Protocol):
    """The plugin's code: one class named `Skill` without constructor arguments in skill.py. Imports no torch.

    Pure: equal arguments give equal results. `applies` is cheap and called often.
    """

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Whether the intervention makes sense for a node with this recipe (its own) and these findings."""
        ...

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """The changes. Only called where `applies` is true; values are within the knobs' bounds."""
        ...

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether the child's metrics moved as the paper claims; None where they cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class SkillCard:
    """The front matter of SKILL.md and where the plugin lies."""

    id: str
    name: str
    paper: str
    family: str
    kind: str
    treats: tuple[str, ...]
    requires: tuple[str, ...]
    cost: str
    badge: str
    folder: str
    body: str
    hook: str | None


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill that is ready to use: its card and its code."""

    card: SkillCard
    code: Skill
