"""FolderJob: a supervised job as its folder tells it; nothing is kept in memory, so any process can attach."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from autotrainer.contract.models import JobResult, LaunchSpec, SupervisorRecord
from autotrainer.errors import ContractError
from autotrainer.executors.base import JobState, JobUsage
from autotrainer.files import write_json


class FolderJob:
    """A job behind a supervisor, on this machine."""

    def __init__(self, job_id: str, directory: Path) -> None:
        """The job in a folder; nothing is read yet."""
        self.id = job_id
        self.directory = directory

    def state(self) -> JobState:
        """Where the job is: the lock first, then which files are there."""
        if self._lock_is_held():
            return JobState.RUNNING
        if (self.directory / "result.json").is_file():
            return JobState.DONE
        return JobState.LOST if (self.directory / "supervisor.json").is_file() else JobState.PENDING

    def cancel(self, reason: str) -> None:
        """Leave cancel.json, which the supervisor polls; works after a restart of ours too."""
        if self.state() is JobState.RUNNING:
            write_json(self.directory / "cancel.json", {"schema_version": 1, "reason": reason, "time": time.time()})

    def usage(self) -> JobUsage | None:
        """Start and end from the supervisor; where it was killed, the end from the job's result or its last sign of life."""
        try:
            record = SupervisorRecord.read(self.directory / "supervisor.json")
        except FileNotFoundError:
            return None
        ended = record.ended
        if ended is None and not self._lock_is_held():
            ended = self._last_sign(record.started)
        until = ended if ended is not None else time.time()
        return JobUsage(record.started, ended, max(0.0, until - record.started) * self._devices())

    def _devices(self) -> int:
        try:
            return max(1, len(LaunchSpec.read(self.directory / "launch.json").devices))
        except (FileNotFoundError, ContractError):
            return 1

    def _last_sign(self, started: float) -> float:
        try:
            result = JobResult.read(self.directory / "result.json")
            if result.ended >= started:
                return result.ended
        except (FileNotFoundError, ContractError):
            pass
        names = ("result.json", "heartbeat.json", "metrics.jsonl", "job.log")
        times = [path.stat().st_mtime for name in names if (path := self.directory / name).exists()]
        return max([started, *times])

    def _lock_is_held(self) -> bool:
        try:
            descriptor = os.open(self.directory / "lock", os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False
