"""DebugExecutor: one job after the other, in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from autotrainer.executors.base import Job, JobState, Resources
from autotrainer.executors.folder_job import FolderJob
from autotrainer.executors.launching import give_devices, read_launch, start_supervisor


class DebugExecutor:
    """Runs a job within `submit`, with the files and limits of every other executor.

    What happens happens in the order of the calls, so that a test needs no waiting. A job gets the
    devices that it asks for. An interrupt cancels the job and comes out of `submit` once that has ended.
    """

    name: ClassVar[str] = "debug"

    @property
    def slots(self) -> int:
        """One."""
        return 1

    def submit(self, job_id: str, directory: Path, resources: Resources) -> Job:
        """Run the job to its end unless it was started before."""
        job = FolderJob(job_id, directory)
        launch = read_launch(job_id, directory)
        if job.state() is JobState.PENDING:
            if resources.devices and not launch.devices:
                give_devices(launch, directory, resources.devices)
            start_supervisor(directory, foreground=True)
        return job

    def attach(self, job_id: str, directory: Path) -> Job:
        """The job in that folder."""
        return FolderJob(job_id, directory)
