"""RandomPlanner: the control that every planner has to beat."""

from __future__ import annotations

from typing import ClassVar

from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, child, describe, draft
from autotrainer.planners.space import draw, knobs_of
from autotrainer.search.frontier import base
from autotrainer.tree.proposal import Proposal
from autotrainer.tree.state import NodeState


class RandomPlanner:
    """Draws knobs from a sane box around the careful recipe, whatever the findings.

    A pruned node is started again from the base.
    """

    name: ClassVar[str] = "random"
    policy: ClassVar[str] = "restarts"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`; never the same twice but by chance of less than one in a million."""
        careful = context.careful.stages[-1]
        knobs = knobs_of(careful, draw(careful, context.rng))
        change = Change(knobs=knobs, why=f"random knobs: {describe(careful, knobs)}")
        return from_knobs(context, parent, change, self.name)


def from_knobs(context: PlanningContext, parent: str, change: Change, planner: str) -> Proposal:
    """The proposal of a change of knobs that does not look at findings; shared by the numeric planners."""
    node = context.tree[parent]
    if node.id == base(context.tree).id:
        return draft(context, context.careful, change, planner)
    if node.state is NodeState.PRUNED:
        again = Change(knobs=change.knobs, why=change.why, from_base=True, findings=node.findings)
        return child(context, node, again, planner)
    return child(context, node, change, planner)
