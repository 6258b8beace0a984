"""FolderJob: a supervised job as its folder tells it, so that any process can attach."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path

from autotrainer.contract.models import JobResult, LaunchSpec, SupervisorRecord
from autotrainer.errors import ContractError
from autotrainer.executors.base import JobState, JobUsage
from autotrainer.executors.orphans import signal_holders
from autotrainer.executors.supervisor import creation_time
from autotrainer.files import write_json

_SIGNS_OF_LIFE = ("result.json", "heartbeat.json", "metrics.jsonl", "job.log")


class FolderJob:
    """A job behind a supervisor, on this machine.

    The job may have written anything into its folder; none of these methods fails because of it.
    """

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
        """Leave cancel.json, which the supervisor polls; where that is gone, signal the job itself."""
        if self.state() is not JobState.RUNNING:
            return
        record, now = self._record(), time.time()
        asked = self._modified("cancel.json")
        if record is not None and creation_time(record.pid) != record.create_time:
            past_grace = asked and now - asked > self._grace_s()
            signal_holders(self.directory / "lock", signal.SIGKILL if past_grace else signal.SIGTERM)
        if not asked:
            write_json(self.directory / "cancel.json", {"schema_version": 1, "reason": reason, "time": now})

    def usage(self) -> JobUsage | None:
        """Start and end from the supervisor; where it was killed, from the job's last sign of life."""
        if not (self.directory / "supervisor.json").exists():
            return None
        record = self._record()
        started = record.started if record is not None else self._modified("launch.json")
        ended = record.ended if record is not None else None
        if ended is None and not self._lock_is_held():
            ended = self._last_sign(started)
        until = ended if ended is not None else time.time()
        return JobUsage(started, ended, max(0.0, until - started) * self._devices())

    def devices(self) -> tuple[int, ...]:
        """The device indices that the job was given; none for the CPU."""
        launch = self._launch()
        return tuple(launch.devices) if launch is not None else ()

    def _devices(self) -> int:
        return max(1, len(self.devices()))

    def _grace_s(self) -> float:
        launch = self._launch()
        return launch.grace_s if launch is not None else 0.0

    def _launch(self) -> LaunchSpec | None:
        try:
            return LaunchSpec.read(self.directory / "launch.json")
        except (OSError, ContractError):
            return None

    def _record(self) -> SupervisorRecord | None:
        try:
            return SupervisorRecord.read(self.directory / "supervisor.json")
        except (OSError, ContractError):
            return None

    def _last_sign(self, started: float) -> float:
        with contextlib.suppress(OSError, ContractError):
            result = JobResult.read(self.directory / "result.json")
            if started <= result.ended <= time.time():
                return result.ended
        return max(started, *(self._modified(name) for name in _SIGNS_OF_LIFE))

    def _modified(self, name: str) -> float:
        try:
            return (self.directory / name).stat().st_mtime
        except OSError:
            return 0.0

    def _lock_is_held(self) -> bool:
        try:
            descriptor = os.open(self.directory / "lock", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False
