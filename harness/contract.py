"""The contract's files, job side (docs/contract.md). Standard library only; frozen.

Every file is written aside, fsynced and renamed; non-finite numbers are the strings "NaN", "Infinity" and
"-Infinity".
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

SCHEMA_VERSION = 1
STATUSES = ("completed", "stopped", "failed", "crashed")
START_MODES = ("base", "exact", "weights")
HOOK_POINTS = ("sampler", "rollouts", "rewards", "advantages", "loss", "callbacks")
_REF = re.compile(r"^(hooks|rewards)/([A-Za-z_]\w*)\.py:([A-Za-z_]\w*)$")
_NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class ContractError(ValueError):
    """A file breaks the contract; the message names the field, its value and what is allowed."""


def encode(value: Any) -> Any:
    """The value as strict JSON allows it: non-finite floats as strings, tuples as lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode_number(value: Any) -> Any:
    """A non-finite string as its float; anything else as it is."""
    return _NONFINITE.get(value, value) if isinstance(value, str) else value


def write_json(path: Path, value: Any) -> None:
    """Write one document aside, fsync it, rename it into place."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8") as stream:
        json.dump(encode(value), stream, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(aside, path)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file.

    Raises:
        FileNotFoundError: there is no such file.
        ContractError: it is not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ContractError(f"{path}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise ContractError(f"{path}: expected an object, found {type(value).__name__}")
    return value


def append_jsonl(path: Path, row: Mapping[str, Any]) -> None:
    """Append one line in one write; whoever reads sees whole lines, but for a torn last one after a crash."""
    line = json.dumps(encode(row), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    with path.open("ab", buffering=0) as stream:
        stream.write(f"{line}\n".encode())


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digests(workspace: Path, names: Mapping[str, str]) -> dict[str, str]:
    """The digests of the named files now; "missing" for one that is gone."""
    paths = {name: workspace / name for name in sorted(names)}
    return {name: sha256_of(path) if path.is_file() else "missing" for name, path in paths.items()}


@dataclass(frozen=True, slots=True)
class ForkSpec:
    """How a stage starts from the checkpoint before it."""

    optimizer: str = "keep"
    lr_horizon: str = "node"
    rewarmup_steps: int = 0
    reference: str = "study_base"
    sampler: str = "continue"

    @classmethod
    def of(cls, value: Any, where: str = "fork") -> ForkSpec:
        """The checked spec."""
        spec: ForkSpec = _build(cls, value, where)
        _one_of(f"{where}.optimizer", spec.optimizer, ("keep", "reset"))
        _one_of(f"{where}.lr_horizon", spec.lr_horizon, ("node", "study"))
        _one_of(f"{where}.sampler", spec.sampler, ("continue", "reshuffle"))
        _at_least(f"{where}.rewarmup_steps", spec.rewarmup_steps, 0)
        return spec


@dataclass(frozen=True, slots=True)
class HookSpec:
    """A hook: the point it hangs on, its file and class, and its constructor's parameters."""

    point: str
    ref: str
    params: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, where: str = "hooks") -> HookSpec:
        """The checked spec."""
        spec: HookSpec = _build(cls, value, where)
        _one_of(f"{where}.point", spec.point, HOOK_POINTS)
        split_ref(spec.ref, "hooks", where)
        return spec


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """A reward component: the task's verifier or a shaping function, and its weight in the sum."""

    ref: str
    weight: float = 1.0
    params: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, where: str = "rewards") -> RewardSpec:
        """The checked spec."""
        spec: RewardSpec = _build(cls, value, where)
        if spec.ref != "verifier":
            split_ref(spec.ref, "rewards", where)
        elif spec.params:
            raise ContractError(f"{where}.params = {spec.params!r} is not allowed: the verifier takes none")
        if not math.isfinite(spec.weight):
            raise ContractError(f"{where}.weight = {spec.weight!r} must be a finite number")
        return spec


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage: its algorithm, optimiser steps, TRL arguments, hooks, rewards, fork."""

    algorithm: str
    steps: int
    arguments: dict[str, Any]
    hooks: list[HookSpec]
    rewards: list[RewardSpec]
    fork: ForkSpec

    @classmethod
    def of(cls, value: Any, where: str = "stages") -> StageSpec:
        """The checked spec."""
        value = _object(value, where)
        hooks = _list(value.get("hooks", []), f"{where}.hooks")
        rewards = _list(value.get("rewards", []), f"{where}.rewards")
        spec: StageSpec = _build(
            cls,
            {
                **value,
                "hooks": [HookSpec.of(hook, f"{where}.hooks[{place}]") for place, hook in enumerate(hooks)],
                "rewards": [
                    RewardSpec.of(one, f"{where}.rewards[{place}]") for place, one in enumerate(rewards)
                ],
                "fork": ForkSpec.of(value.get("fork", {}), f"{where}.fork"),
            },
            where,
        )
        _one_of(f"{where}.algorithm", spec.algorithm, ("grpo",))
        _at_least(f"{where}.steps", spec.steps, 1)
        if not spec.rewards:
            raise ContractError(f"{where}.rewards is empty: a stage needs one, such as {{ref: verifier}}")
        return spec


@dataclass(frozen=True, slots=True)
class StartSpec:
    """Where the job starts."""

    mode: str = "base"
    node: str | None = None
    step: int = 0
    path: str | None = None

    @classmethod
    def of(cls, value: Any) -> StartSpec:
        """The checked spec."""
        spec: StartSpec = _build(cls, value, "start")
        _one_of("start.mode", spec.mode, START_MODES)
        if spec.mode != "base" and not spec.path:
            raise ContractError(f"start.mode {spec.mode!r} needs start.path, a checkpoint folder")
        return spec


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The study's base model: a folder or hub id, and the type it computes in."""

    name: str
    path: str
    dtype: str


@dataclass(frozen=True, slots=True)
class DataSpec:
    """Files of items that the job may read."""

    train: str
    probe: str
    manifest: str


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """How often, on how many items and with which cap (tokens) the probe is scored."""

    every: int
    n: int
    max_completion_length: int


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """Steps between checkpoints."""

    every: int


@dataclass(frozen=True, slots=True)
class RolloutSpec:
    """Steps between recorded generation batches, and rows kept of each."""

    every: int
    max_rows: int


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """The device and how many CPU threads torch may use."""

    device: str
    devices: list[Any]
    threads: int


@dataclass(frozen=True, slots=True)
class JobSpec:
    """job.json."""

    schema_version: int
    job_id: str
    study: str
    node: str
    attempt: int
    seed: int
    model: ModelSpec
    task: str
    start: StartSpec
    stages: list[StageSpec]
    data: DataSpec
    probe: ProbeSpec
    checkpoints: CheckpointSpec
    rollouts: RolloutSpec
    limits: dict[str, Any]
    resources: ResourceSpec
    output: str
    frozen: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> JobSpec:
        """The checked job.

        Raises:
            FileNotFoundError: there is no such file.
            ContractError: a field is missing, unknown or wrong; the message names it.
        """
        return cls.of(read_json(path))

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> JobSpec:
        """The checked job of a parsed job.json.

        Raises:
            ContractError: a field is missing, unknown or wrong; the message names it.
        """
        if value.get("schema_version") != SCHEMA_VERSION:
            raise ContractError(f"schema_version {value.get('schema_version')!r} must be {SCHEMA_VERSION}")
        stages = _list(value.get("stages"), "stages")
        if not stages:
            raise ContractError("stages = [] must be a list with at least one stage")
        parts: dict[str, Any] = {
            "model": ModelSpec,
            "data": DataSpec,
            "probe": ProbeSpec,
            "checkpoints": CheckpointSpec,
            "rollouts": RolloutSpec,
            "resources": ResourceSpec,
        }
        spec: JobSpec = _build(
            cls,
            {
                **value,
                "start": StartSpec.of(value.get("start", {})),
                "stages": [StageSpec.of(stage, f"stages[{place}]") for place, stage in enumerate(stages)],
                **{name: _build(part, value[name], name) for name, part in parts.items() if name in value},
            },
            "job",
        )
        _one_of("resources.device", spec.resources.device, ("cpu", "cuda"))
        _one_of("model.dtype", spec.model.dtype, ("float32", "bfloat16"))
        for name, number in (
            ("probe.every", spec.probe.every),
            ("probe.n", spec.probe.n),
            ("probe.max_completion_length", spec.probe.max_completion_length),
            ("checkpoints.every", spec.checkpoints.every),
            ("rollouts.every", spec.rollouts.every),
            ("resources.threads", spec.resources.threads),
        ):
            _at_least(name, number, 1)
        _at_least("rollouts.max_rows", spec.rollouts.max_rows, 0)
        _at_least("seed", spec.seed, 0)
        return spec

    @property
    def steps(self) -> int:
        """Optimiser steps of all stages."""
        return sum(stage.steps for stage in self.stages)


@dataclass(frozen=True, slots=True)
class Result:
    """result.json: how the job ended; `write` adds what every result has."""

    job_id: str
    status: str
    reason: str
    started: float
    ended: float
    steps: int = 0
    tokens: int = 0
    device_seconds: float = 0.0
    failure: dict[str, Any] | None = None
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    frozen_before: dict[str, str] = field(default_factory=dict)
    frozen_after: dict[str, str] = field(default_factory=dict)
    start: dict[str, Any] | None = None
    stop: dict[str, Any] | None = None

    def write(self, folder: Path) -> None:
        """Write result.json into the attempt's folder."""
        _one_of("status", self.status, STATUSES)
        header = {"schema_version": SCHEMA_VERSION, "written_by": "run"}
        write_json(folder / "result.json", {**header, **asdict(self)})


def split_ref(ref: str, folder: Literal["hooks", "rewards"], where: str = "ref") -> tuple[str, str]:
    """Module and name behind `hooks/x.py:Class` or `rewards/x.py:function`.

    Raises:
        ContractError: the ref has another form or another folder.
    """
    match = _REF.match(ref)
    if match is None or match[1] != folder:
        raise ContractError(f"{where}: ref {ref!r} must look like {folder}/<file>.py:<name>")
    return f"harness.{match[1]}.{match[2]}", match[3]


def _build(cls: Any, value: Any, where: str) -> Any:
    """An instance from an object: no key missing, none unknown, each of its annotated type."""
    value = _object(value, where)
    known = {item.name: item for item in fields(cls)}
    if unknown := sorted(set(value) - set(known)):
        allowed = ", ".join(sorted(known))
        raise ContractError(f"{where} has unknown keys {', '.join(unknown)}: known are {allowed}")
    given = (MISSING, MISSING)
    optional = {name for name, item in known.items() if (item.default, item.default_factory) != given}
    if missing := sorted(set(known) - optional - set(value)):
        raise ContractError(f"{where} lacks {', '.join(missing)}")
    hints = get_type_hints(cls)
    for name, item in value.items():
        _check_type(f"{where}.{name}", item, hints[name])
    return cls(**value)


def _check_type(where: str, value: Any, hint: Any) -> None:
    """Refuse a value that is not of an annotated type; an int passes for a float, a bool for neither."""
    union = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    allowed = tuple(get_origin(kind) or kind for kind in union)
    allowed = (*allowed, int) if float in allowed else allowed
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        names = " or ".join("null" if kind is NoneType else kind.__name__ for kind in allowed)
        raise ContractError(f"{where} = {value!r} must be {names}")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ContractError(f"{where} = {value!r} must be an object")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ContractError(f"{where} = {value!r} must be a list")
    return value


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ContractError(f"{name} = {value!r} must be one of {', '.join(allowed)}")


def _at_least(name: str, value: object, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ContractError(f"{name} = {value!r} must be a whole number of at least {low}")
