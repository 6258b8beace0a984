"""World: what simulated jobs and evaluator share: surface, clock, checkpoints, pace of the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from autotrainer.errors import ConfigError
from autotrainer.files import read_json, write_json
from autotrainer.search.plan import JobCost
from autotrainer.simulation.clock import VirtualClock
from autotrainer.simulation.policy import PolicyState
from autotrainer.simulation.surface import Surface

STATE_FILE = "simulated.json"

SPEED: Mapping[str, float] = MappingProxyType(
    {"CPU": 1.0, "H200": 1.15, "H100": 1.0, "A100": 0.45, "L40S": 0.3, "A10G": 0.12, "T4": 0.05}
)
"""Speed of devices: CPU cores relative to the one that was measured, GPUs relative to an H100 (nominal)."""


def device_cost(cost: JobCost, kind: str) -> JobCost:
    """The cost of a job on another device than the reference; start-up does not scale.

    Raises:
        ConfigError: the device is not in the table.
    """
    if kind not in SPEED:
        raise ConfigError(f"device {kind!r} cannot be simulated: known are {', '.join(SPEED)}")
    return JobCost(cost.startup_s, cost.step_s / SPEED[kind], cost.eval_s / SPEED[kind])


@dataclass
class World:
    """One simulated machine with one model and task.

    `cost` is what a careful step, a start and an evaluation take. With `durable` checkpoints and answers are
    written to the study's folder, so that another process can go on; without, they live in memory.
    """

    surface: Surface
    cost: JobCost
    clock: VirtualClock = field(default_factory=VirtualClock)
    durable: bool = True
    events: dict[str, float] = field(default_factory=dict)
    """When something will have happened next, by job or request."""
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """All metrics rows of a job, those of its future included, by its folder."""
    _states: dict[str, PolicyState] = field(default_factory=dict)

    def state(self, path: str | None) -> PolicyState:
        """The policy behind a checkpoint's folder; the base model's for any other path."""
        if path is None:
            return PolicyState()
        if path in self._states:
            return self._states[path]
        file = Path(path) / STATE_FILE
        return PolicyState.from_json(read_json(file)["state"]) if file.is_file() else PolicyState()

    def keep(self, path: Path, state: PolicyState) -> None:
        """Leave a checkpoint."""
        self._states[str(path)] = state
        if self.durable:
            write_json(path / STATE_FILE, {"schema_version": 1, "simulated": True, "state": state.to_json()})

    def next_event(self) -> float | None:
        """The next time after now at which anything happens; None where nothing is under way."""
        now = self.clock()
        return min((when for when in self.events.values() if when > now), default=None)
