"""Proposals from changes: the edge, the start and the fork that follow from where a node stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotrainer.library.skill import Intervention
from autotrainer.planners.base import PlanningContext
from autotrainer.recipe.forks import fork_for
from autotrainer.recipe.knobs import KNOBS, KnobValue
from autotrainer.recipe.recipe import Fork, HookRef, Recipe, Stage
from autotrainer.search.frontier import base, signature
from autotrainer.tree.finding import Finding
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Edge, Prediction, Proposal, Purpose, Start
from autotrainer.tree.state import NodeState

SEEDS = 2**31


@dataclass(frozen=True, slots=True)
class Change:
    """What a child has that its parent's last stage has not, and why."""

    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    hooks: tuple[HookRef, ...] = ()
    edge: Edge = Edge.TRANSITION
    from_base: bool = False
    before_onset: bool = False
    why: str = ""
    skills: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    predictions: tuple[Prediction, ...] = ()

    @classmethod
    def of_skill(cls, skill: str, intervention: Intervention, findings: Sequence[Finding]) -> Change:
        """A skill's intervention against the findings that it treats."""
        return cls(
            knobs=dict(intervention.knobs),
            hooks=intervention.hooks,
            edge=intervention.edge,
            from_base=intervention.from_base or intervention.edge is Edge.RESTART,
            before_onset=intervention.before_onset or intervention.edge is Edge.REPAIR,
            why=intervention.why,
            skills=(skill,),
            findings=tuple(findings),
            predictions=intervention.predictions,
        )

    def joined(self, other: Change) -> Change | None:
        """Both changes at once, or None where they share a knob or a hook or start in different places."""
        same_start = (self.from_base, self.before_onset) == (other.from_base, other.before_onset)
        points = {hook.ref for hook in self.hooks} & {hook.ref for hook in other.hooks}
        if not same_start or points or self.knobs.keys() & other.knobs.keys():
            return None
        return replace(
            self,
            knobs={**self.knobs, **other.knobs},
            hooks=self.hooks + other.hooks,
            why=f"{self.why}; {other.why}",
            skills=self.skills + other.skills,
            findings=tuple(dict.fromkeys(self.findings + other.findings)),
            predictions=self.predictions + other.predictions,
        )


def draft(context: PlanningContext, recipe: Recipe, change: Change, planner: str) -> Proposal:
    """A first attempt from the base model: `recipe` with the change."""
    stage = _changed(recipe.stages[-1], change, context.steps)
    return _proposal(context, base(context.tree), Edge.DRAFT, Start(), stage, change, planner)


def child(context: PlanningContext, parent: Node, change: Change, planner: str) -> Proposal:
    """A node that goes on from `parent`, from a checkpoint before the finding, or again from the base.

    A pruned parent's last weights are never gone on from: it is repaired or restarted. A repair goes back to
    the parent's own start where no checkpoint is older than the onset.
    """
    old = parent.proposal.recipe.stages[-1]
    stage = _changed(old, change, context.steps)
    pruned = parent.state is NodeState.PRUNED
    if change.from_base:
        return _proposal(context, parent, Edge.RESTART, Start(), stage, change, planner)
    if change.before_onset or pruned:
        start = _before_onset(parent, change)
        if start.mode == "base":
            return _proposal(context, parent, Edge.RESTART, start, stage, change, planner)
        return _proposal(context, parent, Edge.REPAIR, start, _forked(context, start, stage), change, planner)
    start = Start("weights", parent.id, parent.last_step)
    edge = Edge.CONTINUE if _same_training(old, stage) else Edge.TRANSITION
    return _proposal(context, parent, edge, start, _forked(context, start, stage), change, planner)


def is_known(context: PlanningContext, proposal: Proposal) -> bool:
    """Whether the tree has a node of the search with the same start and recipe, seed aside."""
    asked = signature(proposal)
    return any(
        signature(node.proposal) == asked
        for node in context.tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL)
    )


def _before_onset(parent: Node, change: Change) -> Start:
    onset = min((finding.onset_step for finding in change.findings), default=0)
    steps = [step for step in (parent.outcome.checkpoints if parent.outcome else ()) if step < onset]
    return Start("weights", parent.id, max(steps)) if steps else parent.proposal.start


def _forked(context: PlanningContext, start: Start, stage: Stage) -> Stage:
    assert start.node is not None
    return replace(stage, fork=fork_for(context.tree.path_stages_until(start.node, start.step)[-1], stage))


def _changed(old: Stage, change: Change, steps: int) -> Stage:
    hooks = tuple(hook for hook in old.hooks if hook.ref not in {new.ref for new in change.hooks})
    return Stage(
        algorithm=old.algorithm,
        steps=steps,
        knobs={**old.knobs, **change.knobs},
        hooks=hooks + change.hooks,
        rewards=old.rewards,
        fork=Fork(),
    )


def _same_training(old: Stage, new: Stage) -> bool:
    return (old.knobs, old.hooks, old.rewards) == (new.knobs, new.hooks, new.rewards)


def _proposal(
    context: PlanningContext,
    parent: Node,
    edge: Edge,
    start: Start,
    stage: Stage,
    change: Change,
    planner: str,
) -> Proposal:
    careful = context.careful
    recipe = Recipe(careful.model, careful.task, (stage,), context.rng.randrange(SEEDS))
    return Proposal(
        edge=edge,
        purpose=Purpose.SEARCH,
        parents=(parent.id,),
        start=start,
        recipe=recipe,
        hypothesis=change.why,
        skills=change.skills,
        treats=tuple(dict.fromkeys(finding.kind for finding in change.findings)),
        finding_node=parent.id if change.findings else None,
        planner=planner,
        predictions=change.predictions,
    )


def describe(old: Stage, knobs: Mapping[str, KnobValue]) -> str:
    """The changes of knobs for a person: `learning_rate 0.0001 -> 0.0002`."""
    rows = [
        f"{name} {_show(old.knobs.get(name))} -> {_show(value)}"
        for name, value in knobs.items()
        if old.knobs.get(name) != value
    ]
    return ", ".join(rows) or "no change"


def _show(value: KnobValue | None) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def clamp(name: str, value: float) -> float:
    """A number inside a knob's bounds."""
    return min(max(value, KNOBS[name].low), KNOBS[name].high)
