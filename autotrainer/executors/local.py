"""LocalExecutor: jobs on this machine, each under its own detached supervisor."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

from autotrainer.contract.models import LaunchSpec
from autotrainer.errors import ExecutorError
from autotrainer.executors.base import Job, JobState, Resources
from autotrainer.executors.folder_job import FolderJob

START_LIMIT_S = 10.0


class LocalExecutor:
    """Runs at most `slots` jobs at a time by the caller's count; slot i is device i.

    `submit` returns once the supervisor has the folder's lock, so a job that was submitted is RUNNING or has ended.
    """

    name: ClassVar[str] = "local"

    def __init__(self, slots: int) -> None:
        """An executor of so many slots."""
        self._slots = slots
        self._devices: dict[str, tuple[int, ...]] = {}
        self._jobs: dict[str, FolderJob] = {}

    @property
    def slots(self) -> int:
        """Jobs that may run at a time."""
        return self._slots

    def submit(self, job_id: str, directory: Path, resources: Resources) -> Job:
        """Start the job under a supervisor unless that has happened before."""
        job = FolderJob(job_id, directory)
        self._jobs[job_id] = job
        try:
            launch = LaunchSpec.read(directory / "launch.json")
        except FileNotFoundError:
            raise ExecutorError(f"job {job_id}: there is no launch.json in {directory}") from None
        if launch.job_id != job_id:
            raise ExecutorError(f"job {job_id}: {directory / 'launch.json'} is for job {launch.job_id}")
        if job.state() is not JobState.PENDING:
            return job
        if resources.device == "cuda" and not launch.devices:
            self._assign(launch, directory)
        self._start(directory)
        self._await_start(job)
        return job

    def attach(self, job_id: str, directory: Path) -> Job:
        """The job in that folder."""
        job = FolderJob(job_id, directory)
        self._jobs[job_id] = job
        return job

    def _assign(self, launch: LaunchSpec, directory: Path) -> None:
        """Give the job a device that no running job of ours has, and let it see only that one."""
        busy = {
            device for job in self._jobs.values() if job.state() is JobState.RUNNING
            for device in LaunchSpec.read(job.directory / "launch.json").devices
        }
        free = [device for device in range(self._slots) if device not in busy]
        if not free:
            raise ExecutorError(f"job {launch.job_id}: all {self._slots} devices are busy")
        env = {**launch.env, "CUDA_VISIBLE_DEVICES": str(free[0])}
        launch.model_copy(update={"devices": [free[0]], "env": env}).write(directory / "launch.json")

    @staticmethod
    def _start(directory: Path) -> None:
        program = Path(__file__).with_name("supervisor.py")
        with (directory / "supervisor.log").open("ab") as log:
            subprocess.run(
                [sys.executable, "-I", "-S", str(program), str(directory)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd="/", check=True,
            )

    @staticmethod
    def _await_start(job: FolderJob) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while job.state() is JobState.PENDING:
            if time.monotonic() > deadline:
                log = job.directory / "supervisor.log"
                raise ExecutorError(f"job {job.id}: its supervisor did not start within {START_LIMIT_S:.0f} s; see {log}")
            time.sleep(0.02)
