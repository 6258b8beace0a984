"""SearchPolicy: which node to branch from next."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from random import Random
from typing import ClassVar, Protocol

from autotrainer.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class SearchContext:
    """What a policy may look at besides the tree.

    `progress` in [0, 1] of the search's share of the nodes that the plan foresees (not of the clock), the
    random numbers of this decision, how many drafts the plan wants first, the depth allowed, how many nodes
    the plan foresees (0: unknown), and for how many rounds of all slots the rest of them lasts.
    """

    progress: float
    rng: Random
    drafts: int = 3
    max_depth: int = 4
    nodes: int = 0
    rounds_left: float = inf


class SearchPolicy(Protocol):
    """Selects; holds no state of its own: a decision is a function of the journal's prefix and the seed."""

    name: ClassVar[str]

    def select(self, tree: Tree, context: SearchContext) -> str | None:
        """The node to branch from (the base's id for a draft), or None where waiting is better."""
        ...
