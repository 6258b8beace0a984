"""ServiceJob: the simulated counterparts of prepare.py and of the resident evaluator's process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotrainer.contract.models import Control, JobResult, Manifest
from autotrainer.executors.base import JobState, JobUsage
from autotrainer.files import read_json
from autotrainer.simulation.world import World


class ServiceJob:
    """A job that trains nothing.

    `prepare` writes the manifest of data that do not exist and is done; `evaluator` runs until it is asked to
    stop (the answers come from SimulatedEvaluator).
    """

    def __init__(self, world: World, job_id: str, directory: Path) -> None:
        """The job in that folder."""
        self.id, self.directory = job_id, directory
        self._world = world
        self._started: float | None = None

    def start(self, argv: Sequence[str]) -> None:
        """Start it; a prepare job is done at once."""
        if self._started is not None or (self.directory / "result.json").is_file():
            return
        self._started = self._world.clock()
        if self.id.startswith("prepare."):
            _manifest(read_json(Path(argv[-1])))
            self._end("SIMULATED: no data were written")

    def state(self) -> JobState:
        """Where the job is."""
        if (self.directory / "result.json").is_file():
            return JobState.DONE
        if self._started is None:
            return JobState.PENDING
        control = self.directory / "control.json"
        if control.is_file() and Control.read(control).requests:
            self._end("SIMULATED: asked to stop")
            return JobState.DONE
        return JobState.RUNNING

    def cancel(self, reason: str) -> None:
        """End it."""
        if self.state() is JobState.RUNNING:
            self._end(reason)

    def usage(self) -> JobUsage | None:
        """A service is charged for what it answers, not for being there."""
        if self._started is None:
            return None
        return JobUsage(self._started, self._started if self.state() is JobState.DONE else None, 0.0)

    def _end(self, reason: str) -> None:
        started = self._started or self._world.clock()
        JobResult(
            job_id=self.id, status="completed", reason=reason, started=started, ended=self._world.clock()
        ).write(self.directory / "result.json")


def _manifest(asked: dict[str, Any]) -> None:
    splits = {name: {"n": int(count), "sha256": "0" * 64} for name, count in asked["sizes"].items()}
    Manifest(
        task=asked["task"],
        seed=asked["seed"],
        splits=splits,
        task_facts={"max_completion_length": asked["max_completion_length"], "simulated": True},
        audit={"gold_accepted": 1.0, "bad_rejected": 1.0, "overlap": 0},
    ).write(Path(asked["data_dir"]) / "manifest.json")
