"""Proposal: what is asked of a node, written before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from autotrainer.recipe.recipe import Recipe


class Edge(StrEnum):
    """How a node comes from its parents."""

    BASE = "base"
    """The base model itself: evaluated, never trained."""
    DRAFT = "draft"
    """A first attempt from the base model."""
    CONTINUE = "continue"
    """The parent's checkpoint, the same recipe, more steps."""
    TRANSITION = "transition"
    """The parent's checkpoint, several changes at once."""
    RESTART = "restart"
    """The parent's recipe with changes, from the base model."""
    REPAIR = "repair"
    """An earlier healthy checkpoint of a node that went wrong, with the fix."""
    REPLICATE = "replicate"
    """The same path again with another seed."""
    MERGE = "merge"
    """The changes of two lineages."""
    ABLATE = "ablate"
    """One change taken back."""


class Purpose(StrEnum):
    """What a node is run for; only SEARCH and CAREFUL nodes are candidates of the search."""

    BASE = "base"
    CAREFUL = "careful"
    """A seed of the careful recipe: the baseline that search has to beat."""
    SEARCH = "search"
    CONFIRM = "confirm"
    """A finalist's whole path from the base on a fresh seed."""
    CONTROL = "control"
    """The careful recipe, as long as the finalists, on a fresh seed."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a node starts: the base, or a checkpoint of another node (`exact` resume or `weights` fork)."""

    mode: str = "base"
    node: str | None = None
    step: int = 0

    def to_json(self) -> dict[str, Any]:
        """The start as plain JSON values."""
        return {"mode": self.mode, "node": self.node, "step": self.step}


@dataclass(frozen=True, slots=True)
class Prediction:
    """A metric movement that the proposal expects: `direction` is up, down or flat against the parent."""

    metric: str
    direction: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is asked: an edge from parents, a start, a recipe (the node's own stages), a patch, and why.

    `skills` are the ids of the interventions that made the changes, `treats` the kinds of the findings they
    answer, `finding_node` the node that showed them.
    """

    edge: Edge
    purpose: Purpose
    parents: tuple[str, ...]
    start: Start
    recipe: Recipe
    hypothesis: str
    patch: str | None = None
    skills: tuple[str, ...] = ()
    treats: tuple[str, ...] = ()
    finding_node: str | None = None
    planner: str = ""
    predictions: tuple[Prediction, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """The proposal as plain JSON values."""
        return {
            "edge": str(self.edge),
            "purpose": str(self.purpose),
            "parents": list(self.parents),
            "start": self.start.to_json(),
            "recipe": self.recipe.to_json(),
            "hypothesis": self.hypothesis,
            "patch": self.patch,
            "skills": list(self.skills),
            "treats": list(self.treats),
            "finding_node": self.finding_node,
            "planner": self.planner,
            "predictions": [
                {"metric": p.metric, "direction": p.direction, "why": p.why} for p in self.predictions
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The proposal back from `to_json`."""
        return cls(
            edge=Edge(value["edge"]),
            purpose=Purpose(value["purpose"]),
            parents=tuple(value["parents"]),
            start=Start(**value["start"]),
            recipe=Recipe.from_json(value["recipe"]),
            hypothesis=value["hypothesis"],
            patch=value["patch"],
            skills=tuple(value["skills"]),
            treats=tuple(value["treats"]),
            finding_node=value["finding_node"],
            planner=value["planner"],
            predictions=tuple(Prediction(**item) for item in value["predictions"]),
        )
