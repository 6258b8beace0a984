"""AshaPlanner: random recipes that successive halving lets run on."""

from __future__ import annotations

from typing import ClassVar

from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, child
from autotrainer.planners.random import RandomPlanner
from autotrainer.search.frontier import base
from autotrainer.tree.proposal import Proposal
from autotrainer.tree.state import NodeState


class AshaPlanner:
    """Draws a random recipe for a draft, and continues any other node without a change.

    With policy `asha` this is the asynchronous successive halving of Li et al. (2020) over random search.
    """

    name: ClassVar[str] = "asha"
    policy: ClassVar[str] = "asha"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`."""
        node = context.tree[parent]
        if node.id == base(context.tree).id or node.state is NodeState.PRUNED:
            drawn = RandomPlanner().propose(context, base(context.tree).id)
            return _named(drawn, self.name)
        return child(context, node, Change(why="promoted to the next rung"), self.name)


def _named(proposal: Proposal, planner: str) -> Proposal:
    from dataclasses import replace

    return replace(proposal, planner=planner)
