"""Recipe: what one training attempt trains, on what and how; a value with a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from autotrainer.errors import ConfigError
from autotrainer.files import dumps
from autotrainer.recipe.knobs import KnobValue, knob

HookPoint = Literal["sampler", "rollouts", "rewards", "advantages", "loss", "callbacks"]


@dataclass(frozen=True, slots=True)
class HookRef:
    """A hook of the harness: `ref` is `hooks/<file>.py:<Class>`, params go to its constructor."""

    point: HookPoint
    ref: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RewardRef:
    """One reward component: `verifier` (the task's own, frozen) or `rewards/<file>.py:<function>`."""

    ref: str
    weight: float = 1.0
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fork:
    """How a stage starts from the checkpoint before it (docs/contract.md)."""

    optimizer: Literal["keep", "reset"] = "keep"
    lr_horizon: Literal["node", "study"] = "node"
    rewarmup_steps: int = 0
    reference: str = "study_base"
    sampler: Literal["continue", "reshuffle"] = "continue"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a recipe: an algorithm, its length in optimiser steps, its knobs, hooks and rewards."""

    algorithm: str
    steps: int
    knobs: Mapping[str, KnobValue]
    hooks: tuple[HookRef, ...] = ()
    rewards: tuple[RewardRef, ...] = (RewardRef("verifier"),)
    fork: Fork = Fork()

    def __post_init__(self) -> None:
        """Check every knob, so that a stage that exists is within bounds."""
        if self.steps < 1:
            raise ConfigError(f"steps = {self.steps} is not allowed: a stage has at least 1 step")
        object.__setattr__(
            self, "knobs", {key: knob(key).check(self.knobs[key]) for key in sorted(self.knobs)}
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of two recipes: `key` is `<stage>.<field>` or `<stage>.knobs.<knob>`; None = absent."""

    key: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """Model, task, stages and seed. Equal recipes have equal digests, whatever the order of their keys."""

    model: str
    task: str
    stages: tuple[Stage, ...]
    seed: int

    def __post_init__(self) -> None:
        """A recipe has at least one stage."""
        if not self.stages:
            raise ConfigError("a recipe needs at least one stage")

    @property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(dumps(self.to_json()).encode()).hexdigest()[:16]

    @property
    def steps(self) -> int:
        """Optimiser steps of all stages together."""
        return sum(stage.steps for stage in self.stages)

    def diff(self, other: Recipe) -> tuple[Change, ...]:
        """The changes that turn this recipe into the other: `a.replace(*a.diff(b)) == b`."""
        mine, theirs = dict(_flatten(self)), dict(_flatten(other))
        keys = sorted(mine.keys() | theirs.keys())
        return tuple(
            Change(key, mine.get(key), theirs.get(key))
            for key in keys
            if (key in mine) != (key in theirs) or mine[key] != theirs[key]
        )

    def replace(self, *changes: Change) -> Recipe:
        """The recipe with the changes applied; a change whose `new` is None removes its key.

        Raises:
            ConfigError: a key is unknown or a value is out of bounds.
        """
        flat = dict(_flatten(self))
        for change in changes:
            if change.new is None:
                flat.pop(change.key, None)
            else:
                flat[change.key] = change.new
        return _unflatten(flat)

    def with_knobs(self, knobs: Mapping[str, KnobValue], stage: int = -1) -> Recipe:
        """The recipe with some knobs of one stage set to other values."""
        stages = list(self.stages)
        stages[stage] = replace(stages[stage], knobs={**stages[stage].knobs, **knobs})
        return replace(self, stages=tuple(stages))

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain JSON values."""
        return {
            "model": self.model,
            "task": self.task,
            "seed": self.seed,
            "stages": [stage_to_json(stage) for stage in self.stages],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The recipe back from `to_json`."""
        stages = tuple(_stage_from_json(stage) for stage in value["stages"])
        return cls(model=value["model"], task=value["task"], seed=value["seed"], stages=stages)


def stage_to_json(stage: Stage) -> dict[str, Any]:
    """A stage as plain JSON values."""
    return {
        "algorithm": stage.algorithm,
        "steps": stage.steps,
        "knobs": dict(stage.knobs),
        "hooks": [{"point": h.point, "ref": h.ref, "params": dict(h.params)} for h in stage.hooks],
        "rewards": [{"ref": r.ref, "weight": r.weight, "params": dict(r.params)} for r in stage.rewards],
        "fork": {
            "optimizer": stage.fork.optimizer,
            "lr_horizon": stage.fork.lr_horizon,
            "rewarmup_steps": stage.fork.rewarmup_steps,
            "reference": stage.fork.reference,
            "sampler": stage.fork.sampler,
        },
    }


def _stage_from_json(value: Mapping[str, Any]) -> Stage:
    return Stage(
        algorithm=value["algorithm"],
        steps=value["steps"],
        knobs=dict(value["knobs"]),
        hooks=tuple(HookRef(**hook) for hook in value["hooks"]),
        rewards=tuple(RewardRef(**reward) for reward in value["rewards"]),
        fork=Fork(**value["fork"]),
    )


def _flatten(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    value = recipe.to_json()
    yield from ((key, value[key]) for key in ("model", "task", "seed"))
    for index, stage in enumerate(value["stages"]):
        for name, item in stage.items():
            if name in ("knobs", "fork"):
                yield from ((f"{index}.{name}.{key}", entry) for key, entry in item.items())
            else:
                yield f"{index}.{name}", item


def _unflatten(flat: Mapping[str, Any]) -> Recipe:
    stages: dict[int, dict[str, Any]] = {}
    for key, item in flat.items():
        if key in ("model", "task", "seed"):
            continue
        index, _, rest = key.partition(".")
        name, _, entry = rest.partition(".")
        if not index.isdigit() or name not in ("algorithm", "steps", "knobs", "hooks", "rewards", "fork"):
            raise ConfigError(f"unknown recipe key {key!r}: known are model, task, seed and <stage>.<field>")
        stage = stages.setdefault(int(index), {"knobs": {}, "fork": {}})
        if entry:
            stage[name][entry] = item
        else:
            stage[name] = item
    ordered = [stages[index] for index in sorted(stages)]
    return Recipe.from_json(
        {"model": flat["model"], "task": flat["task"], "seed": flat["seed"], "stages": ordered}
    )
