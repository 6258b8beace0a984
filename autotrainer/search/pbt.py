"""PBT: a population of paths whose worst members take over the best ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from random import Random
from typing import ClassVar

from autotrainer.search.base import SearchContext
from autotrainer.search.frontier import base
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

QUANTILE = 0.25
"""Share of the population that is replaced, and of which it is replaced (Ray's quantile_fraction)."""
MIN_POPULATION = 4


@dataclass(frozen=True, slots=True)
class Turn:
    """What one member does next: goes on from `parent`, or, with `replaces`, takes over another one."""

    parent: str
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class Pbt:
    """Population based training in the manner of Ray Tune: asynchronous, an interval is a node.

    The population is as large as lets every member reach the depth allowed, at least four.
    """

    name: ClassVar[str] = "pbt"

    def select(self, tree: Tree, context: SearchContext) -> str | None:
        """The base while the population is not complete, then the node that the next turn goes on from.

        None while members run whose end decides the next turn.
        """
        wanted = max(MIN_POPULATION, ceil(context.nodes / max(1, context.max_depth)))
        members = population(tree)
        if len(members) < wanted:
            return base(tree).id
        turn = next_turn(tree, context.max_depth)
        if turn is not None:
            return turn.parent
        return None if tree.active else base(tree).id


def population(tree: Tree) -> list[Node]:
    """The newest node of every member, in the order of the members' first nodes.

    Careful seeds are members too: they are paid for, and hold the careful recipe.
    """
    newest: dict[str, Node] = {}
    member_of: dict[str, str] = {}
    for node in tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL):
        place = node.proposal.parents[1] if len(node.proposal.parents) > 1 else node.parent
        member = member_of.get(place or "", node.id) if place != base(tree).id else node.id
        member_of[node.id] = member
        newest[member] = node
    return list(newest.values())


def next_turn(tree: Tree, max_depth: int) -> Turn | None:
    """The turn of the first member that waits for one; a function of the tree alone.

    A member that was lost is replaced like one of the worst. A clone goes on from a node whose depth leaves
    room; where the best are at the depth allowed nobody can take them over.
    """
    members = population(tree)
    ended = [node for node in members if node.state.is_terminal]
    if len(members) < 2:
        return None
    ranked = sorted(ended, key=lambda node: (node.score("dev") or 0.0, -node.index))
    count = min(ceil(QUANTILE * len(members)), len(ranked) // 2)
    worst = {node.id for node in ranked[:count]}
    best = [
        node
        for node in ranked[len(ranked) - count :]
        if node.state is NodeState.COMPLETED and tree.depth(node.id) < max_depth
    ]
    for node in ended:
        lost = node.state is not NodeState.COMPLETED
        if (node.id in worst or lost) and best:
            chosen = Random(f"pbt {len(tree)}").choice(best)
            if chosen.id != node.id:
                return Turn(chosen.id, node.id)
        if not lost and tree.depth(node.id) < max_depth:
            return Turn(node.id)
    return None
