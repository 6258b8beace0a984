"""LocalExecutor: jobs on this machine, each under its own detached supervisor."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

from autotrainer.errors import ExecutorError
from autotrainer.executors.base import Job, JobState, Resources
from autotrainer.executors.devices import busy_devices
from autotrainer.executors.folder_job import FolderJob
from autotrainer.executors.launching import give_devices, read_launch, start_supervisor

START_LIMIT_S = 30.0


class LocalExecutor:
    """Jobs on this machine, at most `slots` at a time by the caller's count.

    `submit` returns once the supervisor has the lock and has written its record: a job that was submitted
    is RUNNING or has ended. A job for `cuda` that names no devices gets the one that the fewest running
    jobs have, which is a free one while there are no more jobs than devices.
    """

    name: ClassVar[str] = "local"

    def __init__(self, slots: int) -> None:
        """An executor of so many slots.

        Raises:
            ValueError: less than one.
        """
        if slots < 1:
            raise ValueError(f"slots is {slots}: it must be at least 1")
        self._slots = slots
        self._jobs: dict[str, FolderJob] = {}

    @property
    def slots(self) -> int:
        """Jobs that may run at a time; the caller counts."""
        return self._slots

    def submit(self, job_id: str, directory: Path, resources: Resources) -> Job:
        """Start the job under a supervisor unless that has happened before."""
        job = FolderJob(job_id, directory)
        launch = read_launch(job_id, directory)
        if job.state() is JobState.PENDING:
            if resources.device == "cuda" and not launch.devices:
                give_devices(launch, directory, resources.devices or (self._least_used(),))
            start_supervisor(directory)
            self._await_start(job)
        self._jobs[job_id] = job
        return job

    def attach(self, job_id: str, directory: Path) -> Job:
        """The job in that folder; while it runs its devices count as used."""
        job = FolderJob(job_id, directory)
        self._jobs[job_id] = job
        return job

    def free_devices(self) -> list[int]:
        """The devices that no running job has, of the jobs submitted or attached here."""
        used = self._used()
        return [device for device in self._device_indices() if not used[device]]

    def _least_used(self) -> int:
        """The device that the fewest of our jobs have, of those that nobody else computes on.

        Raises:
            ExecutorError: others compute on all of them.
        """
        used, busy = self._used(), busy_devices()
        ours = [device for device in self._device_indices() if used[device] or device not in busy]
        if not ours:
            raise ExecutorError(
                f"other processes compute on all devices ({', '.join(map(str, self._device_indices()))}): "
                "wait for them, end them, or set CUDA_VISIBLE_DEVICES to free ones"
            )
        return min(ours, key=lambda device: (used[device], device))

    def _used(self) -> Counter[int]:
        running = (job for job in self._jobs.values() if job.state() is JobState.RUNNING)
        return Counter(device for job in running for device in job.devices())

    def _device_indices(self) -> list[int]:
        """One device a slot, of those that our own environment leaves visible."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return list(range(self._slots))
        try:
            found = [int(part) for part in visible.split(",") if part.strip()][: self._slots]
        except ValueError:
            raise ExecutorError(
                f"CUDA_VISIBLE_DEVICES is {visible!r}: give device indices, as in 0,1, or leave it unset"
            ) from None
        if not found:
            raise ExecutorError("CUDA_VISIBLE_DEVICES is empty: no device is left for a job that needs one")
        return found

    @staticmethod
    def _await_start(job: FolderJob) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not (job.directory / "supervisor.json").exists():
            if time.monotonic() > deadline:
                raise ExecutorError(
                    f"job {job.id}: its supervisor did not start within {START_LIMIT_S:.0f} s; "
                    f"see {job.directory / 'supervisor.log'}"
                )
            time.sleep(0.01)
