"""Planner: turns a node of the tree and its findings into the next proposal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Protocol

from autotrainer.contract.metrics import Metrics
from autotrainer.library.skill import LoadedSkill
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.proposal import Proposal
from autotrainer.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What a planner may look at: a function of the journal's prefix and the seed, never of the clock.

    `careful` is the study's careful recipe (one stage, from the base); `steps` the length of a search node in
    optimiser steps; `metrics` reads a node's metrics. `rng` is seeded by the study's seed and the number of
    nodes, so the same prefix gives the same numbers. `settings` are the `--set search.*` values.
    """

    tree: Tree
    careful: Recipe
    steps: int
    library: Mapping[str, LoadedSkill]
    rng: Random
    metrics: Callable[[str], Metrics]
    settings: Mapping[str, object]
    beliefs: Mapping[str, float] = field(default_factory=dict)
    """What earlier studies say of skills: the believed effect on dev, by skill id (library/store.py)."""


class Planner(Protocol):
    """Proposes; never launches. Raises PlannerError where it has nothing sensible to offer for that node."""

    name: ClassVar[str]

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent` (the base's id asks for a draft)."""
        ...


def planning_rng(seed: int, nodes: int) -> Random:
    """The random numbers for the proposal that follows `nodes` nodes."""
    return Random(f"{seed}:{nodes}")
