"""Best-first: branch from the best dev score, each node once before any node twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotrainer.search.base import SearchContext
from autotrainer.search.frontier import base, branchable, drafts, unanswered
from autotrainer.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class BestFirst:
    """The policy; a pure function of the tree: greedy, without exploration, the baseline of PUCT."""

    name: ClassVar[str] = "best-first"
    children: int = 2
    """A node is branched from at most so often while others are left."""

    def select(self, tree: Tree, context: SearchContext) -> str | None:
        """A pruned node whose finding waits for an answer; else a draft if wanted; else the best node.

        None only while nodes run whose end can change the choice.
        """
        waiting = unanswered(tree)
        if waiting is not None:
            return waiting.id
        if len(drafts(tree)) < context.drafts:
            return base(tree).id
        frontier = branchable(tree, context.max_depth)
        if not frontier:
            return None if tree.active else base(tree).id
        open_nodes = [node for node in frontier if len(tree.children(node.id)) < self.children] or list(
            frontier
        )
        return max(open_nodes, key=lambda node: (node.score("dev") or 0.0, -node.index)).id
