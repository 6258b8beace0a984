"""Restarts only: every node is a draft from the base model, as blind tuners run their trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotrainer.search.base import SearchContext
from autotrainer.search.frontier import base
from autotrainer.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class Restarts:
    """The policy of random search, grids, TPE and CMA-ES; what a search with forks is compared with."""

    name: ClassVar[str] = "restarts"

    def select(self, tree: Tree, context: SearchContext) -> str | None:
        """The base."""
        return base(tree).id
