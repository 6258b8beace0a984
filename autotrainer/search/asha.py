"""ASHA: asynchronous successive halving over the tree's levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autotrainer.search.base import SearchContext
from autotrainer.search.frontier import base
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class Asha:
    """Promotes the best 1/reduction of a rung, whenever a slot is free; a new draft where none is left.

    Li et al., A System for Massively Parallel Hyperparameter Tuning (2020), algorithm 2. The resource is the
    depth of a node: rungs are at depths 1, reduction, reduction^2 ... up to the depth allowed; a path between
    two rungs goes on without being asked. Stopped and failed nodes count as the worst of their rung.
    """

    name: ClassVar[str] = "asha"
    reduction: int = 2

    def select(self, tree: Tree, context: SearchContext) -> str | None:
        """The node to continue, or the base for a new draft."""
        rungs = self.rungs(context.max_depth)
        nodes = tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL)
        depths = {node.id: tree.depth(node.id) for node in nodes}
        between = [
            node
            for node in nodes
            if depths[node.id] not in rungs
            and depths[node.id] < context.max_depth
            and node.state is NodeState.COMPLETED
            and not tree.children(node.id)
        ]
        if between:
            return between[0].id
        for rung in reversed(rungs[:-1]):
            promoted = self._promotable(tree, [node for node in nodes if depths[node.id] == rung])
            if promoted is not None:
                return promoted
        return base(tree).id

    def rungs(self, max_depth: int) -> list[int]:
        """Depths at which runs are compared; the last one is where they end."""
        found = [1]
        while found[-1] * self.reduction <= max_depth:
            found.append(found[-1] * self.reduction)
        return found

    def _promotable(self, tree: Tree, rung: Sequence[Node]) -> str | None:
        ended = [node for node in rung if node.state.is_terminal]
        ended.sort(key=lambda node: (-(node.score("dev") or 0.0), node.index))
        for node in ended[: len(ended) // self.reduction]:
            if node.state is NodeState.COMPLETED and not tree.children(node.id):
                return node.id
        return None
