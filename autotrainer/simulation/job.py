"""SimulatedJob: a training job whose whole curve is known when it starts and whose clock is virtual."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any

from autotrainer.contract.models import Control, JobCheckpoint, JobResult, JobSpec
from autotrainer.errors import ExecutorError
from autotrainer.executors.base import JobState, JobUsage
from autotrainer.files import dumps, read_json, write_json, write_text
from autotrainer.recipe.careful import careful_recipe
from autotrainer.simulation.dynamics import rows, token_share
from autotrainer.simulation.levers import Levers
from autotrainer.simulation.policy import PolicyState
from autotrainer.simulation.world import World

LOOK_EVERY = 5
"""Steps between two moments at which the loop gets to see a running job."""
_GENERATION_SHARE = 0.6
"""Share of a step's time that scales with its tokens."""


class SimulatedJob:
    """A job of the simulated executor.

    Its folder holds `simulated-job.json` from its start on, so that another process can find it again.
    """

    def __init__(self, world: World, job_id: str, directory: Path) -> None:
        """The job in that folder, started or not."""
        self.id, self.directory = job_id, directory
        self._world = world
        self._record = directory / "simulated-job.json"
        self._started: float | None = None
        self._ends: list[float] = []
        self._states: list[PolicyState] = []
        self._spec: JobSpec | None = None
        self._stopped_at: int | None = None
        self._cancelled = ""
        self._done = False
        if self._record.is_file():
            self._begin(float(read_json(self._record)["started"]))

    @property
    def started(self) -> float | None:
        """When it started."""
        return self._started

    def start(self) -> None:
        """Start it now."""
        now = self._world.clock()
        value = {"schema_version": 1, "simulated": True, "job_id": self.id, "started": now}
        write_json(self._record, value)
        self._begin(now)

    def state(self) -> JobState:
        """Where the job is at the clock's time; its files are written once it has ended."""
        if self._started is None:
            return JobState.PENDING
        if not self._done:
            self._look_for_stop()
            if self._world.clock() < self._end():
                self._expect()
                return JobState.RUNNING
            self._finish()
        return JobState.DONE

    def cancel(self, reason: str) -> None:
        """End it at its current step."""
        if not self._done and self._stopped_at is None:
            self._stopped_at, self._cancelled = self._steps_by(self._world.clock()), reason

    def usage(self) -> JobUsage | None:
        """When it ran and what it used so far."""
        if self._started is None:
            return None
        now, end = self._world.clock(), self._end()
        ended = end if now >= end else None
        return JobUsage(self._started, ended, min(now, end) - self._started)

    def known_steps(self) -> int:
        """Steps that are over."""
        return min(self._steps_by(self._world.clock()), self._last())

    def _begin(self, started: float) -> None:
        spec = JobSpec.read(self.directory / "job.json")
        world = self._world
        cap = int(spec.probe["max_completion_length"]) if not spec.stages else _task_cap(spec)
        state, done = world.state(spec.start.path), 0
        table: list[dict[str, Any]] = []
        times: list[float] = []
        for place, stage in enumerate(spec.stages):
            forked = spec.start.mode != "base" or place > 0
            levers = Levers.of_stage(stage, spec.model.name, cap, _careful_prompts(spec), forked)
            seed = int.from_bytes(hashlib.sha256(f"{spec.seed}:{place}".encode()).digest()[:6], "big")
            for row, after in rows(
                world.surface, state, levers, int(stage["steps"]), seed, spec.probe["every"], done + 1
            ):
                tokens = token_share(world.surface, state, levers)
                times.append(world.cost.step_s * (1 - _GENERATION_SHARE + _GENERATION_SHARE * tokens))
                state = after
                self._states.append(after)
                table.append({**row, "stage": place, "step_time": times[-1]})
            done = len(table)
        self._spec, self._started = spec, started
        self._ends = [started + world.cost.startup_s + spent for spent in accumulate(times)]
        for row, end in zip(table, self._ends, strict=True):
            row |= {"time": end, "wall_s": end - started}
        world.rows[str(self.directory)] = table
        self._expect()

    def _steps_by(self, when: float) -> int:
        return bisect_right(self._ends, when)

    def _last(self) -> int:
        return len(self._ends) if self._stopped_at is None else self._stopped_at

    def _end(self) -> float:
        assert self._started is not None
        return self._ends[self._last() - 1] if self._last() else self._started + self._world.cost.startup_s

    def _look_for_stop(self) -> None:
        """A stop is seen at the end of the step during which it was written, like a real job's."""
        path = self.directory / "control.json"
        if self._stopped_at is not None or not path.is_file():
            return
        if any(request.kind in ("stop", "stop_now") for request in Control.read(path).requests):
            now = self._world.clock()
            self._stopped_at = min(len(self._ends), bisect_left(self._ends, now) + 1)

    def _expect(self) -> None:
        steps = self._steps_by(self._world.clock())
        look = min(self._last(), (steps // LOOK_EVERY + 1) * LOOK_EVERY)
        self._world.events[self.id] = self._ends[look - 1] if look > steps else self._end()

    def _finish(self) -> None:
        spec, world, last = self._spec, self._world, self._last()
        if spec is None or self._started is None:
            raise ExecutorError(f"job {self.id} has not started")
        every = int(spec.checkpoints["every"])
        kept = [step for step in range(1, last + 1) if step % every == 0 or step == last]
        for step in kept:
            world.keep(self.directory / "checkpoints" / str(step), self._states[step - 1])
        if world.durable:
            table = world.rows[str(self.directory)][:last]
            write_text(self.directory / "metrics.jsonl", "".join(dumps(row) + "\n" for row in table))
        whole = self._stopped_at is None or last == len(self._ends)
        JobResult(
            job_id=self.id,
            status="completed" if whole else "stopped",
            reason="SIMULATED: reached its step limit"
            if whole
            else self._cancelled or "SIMULATED: asked to stop",
            steps=last,
            device_seconds=self._end() - self._started,
            started=self._started,
            ended=self._end(),
            checkpoints=[JobCheckpoint(step=step, kind="weights") for step in kept],
            frozen_before=spec.frozen,
            frozen_after=spec.frozen,
            start={"mode": spec.start.mode},
        ).write(self.directory / "result.json")
        world.events.pop(self.id, None)
        self._done = True


def _task_cap(spec: JobSpec) -> int:
    from autotrainer.contract.models import Manifest

    return int(Manifest.read(Path(spec.data["manifest"])).task_facts["max_completion_length"])


def _careful_prompts(spec: JobSpec) -> int:
    knobs = careful_recipe(spec.model.name, spec.task, 0, 1, 1).stages[0].knobs
    return int(knobs["prompts_per_step"])
