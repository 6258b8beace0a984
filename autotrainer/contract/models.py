"""The contract's files as pydantic models, control-plane side (docs/contract.md).

The harness has its own reading of the same files; golden copies in tests/contract hold the two together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from autotrainer.errors import ContractError
from autotrainer.files import decode_number, read_json, write_json

Number = Annotated[float, BeforeValidator(decode_number)]
"""A float whose non-finite values are strings on disk."""


class ContractFile(BaseModel):
    """A file of the contract: strict about keys, versioned, read and written whole."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file's content.

        Raises:
            FileNotFoundError: there is no such file.
            ContractError: the content breaks the contract; the message names file and field.
        """
        try:
            return cls.model_validate(read_json(path))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise ContractError(f"{path}: {where}: {first['msg']}") from error

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        write_json(path, self.model_dump(mode="python"))


class LaunchSpec(ContractFile):
    """launch.json: how a supervisor starts a job."""

    job_id: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    wall_s: float = Field(gt=0)
    heartbeat_stale_s: float = Field(gt=0)
    phase_s: dict[str, float] = Field(default_factory=dict)
    grace_s: float = 20.0
    hide: list[str] = Field(default_factory=list)
    writable: list[str] = Field(default_factory=list)
    network: bool = False
    devices: list[int] = Field(default_factory=list)


class SupervisorRecord(ContractFile):
    """supervisor.json: what a supervisor knows about its job."""

    job_id: str
    pid: int
    create_time: float
    job_pid: int | None
    job_create_time: float | None
    started: float
    ended: float | None
    exit_code: int | None
    killed: Literal["wall", "hung", "cancelled"] | None
    isolation: Literal["A", "B", "C"]


class StartSpec(BaseModel):
    """Where a job starts."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["base", "exact", "weights"] = "base"
    node: str | None = None
    step: int = 0
    path: str | None = None


class ModelSpec(BaseModel):
    """The study's base model: a folder or hub id."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    name: str
    path: str
    dtype: str


class JobSpec(ContractFile):
    """job.json: what harness/run.py is to do."""

    job_id: str
    study: str
    node: str
    attempt: int
    seed: int
    model: ModelSpec
    task: str
    start: StartSpec
    stages: list[dict[str, Any]]
    data: dict[str, str]
    probe: dict[str, int]
    checkpoints: dict[str, int]
    rollouts: dict[str, int]
    limits: dict[str, Any]
    resources: dict[str, Any]
    output: str
    frozen: dict[str, str]


class JobFailure(BaseModel):
    """Whose fault a failed job is."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    type: str
    message: str
    file: str | None = None
    line: int | None = None


class JobCheckpoint(BaseModel):
    """A checkpoint that a job left."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    step: int
    kind: Literal["full", "weights"]


class JobResult(ContractFile):
    """result.json: how a job ended."""

    job_id: str
    status: Literal["completed", "stopped", "failed", "crashed"]
    reason: str
    failure: JobFailure | None = None
    steps: int = 0
    tokens: int = 0
    device_seconds: Number = 0.0
    started: Number = 0.0
    ended: Number = 0.0
    checkpoints: list[JobCheckpoint] = Field(default_factory=list)
    frozen_before: dict[str, str] = Field(default_factory=dict)
    frozen_after: dict[str, str] = Field(default_factory=dict)
    start: dict[str, Any] | None = None
    stop: dict[str, Any] | None = None
    written_by: Literal["run", "supervisor"] = "run"


class Heartbeat(ContractFile):
    """heartbeat.json: a job's sign of life."""

    job_id: str
    time: float
    step: int
    phase: str
    phase_started: float
    memory_gib: Number


class ControlRequest(BaseModel):
    """One request to a running job."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    id: str
    kind: Literal["stop", "stop_now", "checkpoint", "set"]
    args: dict[str, Any] = Field(default_factory=dict)


class Control(ContractFile):
    """control.json: all requests to a job, in order."""

    seq: int = 0
    requests: list[ControlRequest] = Field(default_factory=list)

    def with_request(self, kind: Literal["stop", "stop_now", "checkpoint", "set"], **args: Any) -> Control:
        """The file with one more request."""
        request = ControlRequest(id=f"r{self.seq + 1}", kind=kind, args=args)
        return Control(seq=self.seq + 1, requests=[*self.requests, request])


class Manifest(ContractFile):
    """data/manifest.json: what prepare.py wrote."""

    task: str
    seed: int
    splits: dict[str, dict[str, Any]]
    task_facts: dict[str, Any]
    audit: dict[str, Any]


class EvalRequest(ContractFile):
    """A request to the resident evaluator."""

    id: str
    node: str
    step: int
    split: Literal["probe", "dev", "holdout", "test"]
    model_path: str
    n: int = Field(ge=0)
    samples: int = Field(ge=1)
    temperature: float = Field(gt=0)
    max_completion_length: int = Field(ge=1)
    seed: int
    output: str


class EvalItem(BaseModel):
    """One item's scores."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    id: str
    scores: list[float | None]
    greedy: float | None


class EvalAnswer(ContractFile):
    """The evaluator's answer."""

    id: str
    node: str
    step: int
    split: str
    n: int
    samples: int
    temperature: float
    seed: int
    items: list[EvalItem] = Field(default_factory=list)
    mean: Number = 0.0
    unscorable: int = 0
    truncated: Number = 0.0
    tokens: int = 0
    device_seconds: Number = 0.0
    started: float = 0.0
    ended: float = 0.0
    model_sha256: str = ""
    error: str | None = None
