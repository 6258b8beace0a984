"""SimulatedExecutor: `--executor simulated`; jobs that take no time of ours."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from autotrainer.executors.base import Job, Resources
from autotrainer.executors.launching import read_launch
from autotrainer.simulation.job import SimulatedJob
from autotrainer.simulation.service import ServiceJob
from autotrainer.simulation.world import World


class SimulatedExecutor:
    """Starts simulated jobs in a world. Training jobs follow the dynamics, others answer at once.

    Submitting is idempotent by folder, as with every executor.
    """

    name: ClassVar[str] = "simulated"

    def __init__(self, world: World, slots: int) -> None:
        """An executor of so many slots in a world."""
        self.world = world
        self._slots = slots
        self._jobs: dict[str, Job] = {}

    @property
    def slots(self) -> int:
        """Jobs that may run at a time; the caller counts."""
        return self._slots

    def submit(self, job_id: str, directory: Path, resources: Resources) -> Job:
        """Start the job unless it was started before."""
        launch = read_launch(job_id, directory)
        job = self.attach(job_id, directory)
        if isinstance(job, SimulatedJob):
            if job.started is None:
                job.start()
        elif isinstance(job, ServiceJob):
            job.start(launch.argv)
        return job

    def attach(self, job_id: str, directory: Path) -> Job:
        """The job in that folder."""
        if job_id not in self._jobs:
            owner = job_id.rpartition(".")[0]
            service = owner in ("evaluator", "prepare")
            self._jobs[job_id] = (
                ServiceJob(self.world, job_id, directory)
                if service
                else SimulatedJob(self.world, job_id, directory)
            )
        return self._jobs[job_id]
