"""Executor and Job: how jobs are started, found again after a restart of ours, watched and cancelled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol


class JobState(StrEnum):
    """Where a job is, as its folder tells."""

    PENDING = "pending"
    """Never started: the lock is free and there is no supervisor.json."""
    RUNNING = "running"
    """The lock is held."""
    DONE = "done"
    """The lock is free and there is a result.json."""
    LOST = "lost"
    """The lock is free, it was started, and there is no result.json: crashed."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a job asks for: `cpu` or `cuda`, device indices (empty: the executor chooses), CPU threads."""

    device: str
    devices: tuple[int, ...] = ()
    threads: int = 1

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: an unknown device, devices for the CPU, or less than one thread.
        """
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device is {self.device!r}: allowed are 'cpu' and 'cuda'")
        if self.device == "cpu" and self.devices:
            raise ValueError(f"devices are {self.devices}: a job for the CPU has none")
        if self.threads < 1:
            raise ValueError(f"threads is {self.threads}: it must be at least 1")


@dataclass(frozen=True, slots=True)
class JobUsage:
    """When a job ran and the device-seconds that are charged for it so far.

    Times are epoch seconds; `ended` is None while it runs. A job without devices is charged as one.
    """

    started: float
    ended: float | None
    device_seconds: float


class Job(Protocol):
    """A job that was submitted; all its state is in its folder."""

    id: str
    directory: Path

    def state(self) -> JobState:
        """Where the job is now."""
        ...

    def cancel(self, reason: str) -> None:
        """Have the job and all processes it started end: TERM, then KILL after the grace period.

        Returns at once; without effect on a job that does not run. Where the supervisor is gone a second call
        after the grace period is what kills.
        """
        ...

    def usage(self) -> JobUsage | None:
        """When it ran and what it used; None before it started."""
        ...


class Executor(Protocol):
    """Starts jobs. `launch.json` lies in the folder before `submit`.

    Submitting is idempotent by job id and folder, also across processes: a job that was started is never
    started again. Jobs outlive the executor; another one finds them by `attach`.
    """

    name: ClassVar[str]

    @property
    def slots(self) -> int:
        """Jobs that may run at a time; the caller counts."""
        ...

    def submit(self, job_id: str, directory: Path, resources: Resources) -> Job:
        """Start the job, or attach to it where it was started before.

        Raises:
            ExecutorError: there is no launch.json, it names another job, or no supervisor could be started.
            ContractError: launch.json is malformed.
        """
        ...

    def attach(self, job_id: str, directory: Path) -> Job:
        """The job in that folder, whether it has started or not."""
        ...
