"""Plan: what a budget buys, fixed before the clock starts and written into the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class JobCost:
    """The cost model of one job, in seconds on one slot, measured by the smoke run."""

    startup_s: float
    step_s: float
    eval_s: float

    def job_s(self, steps: int) -> float:
        """Seconds of a job of so many steps, without its evaluation."""
        return self.startup_s + steps * self.step_s


@dataclass(frozen=True, slots=True)
class Plan:
    """Mode and sizes of a study; a pure function of budget, cost and settings (see make_plan).

    `confirm_reserve_s` device-seconds are kept back for confirmation and the final test; `provable_gain` is
    the smallest difference of means (as a share, 0.02 = 2 points) that the confirmation can prove at the
    assumed seed deviation.
    """

    mode: str
    slots: int
    steps: int
    careful_seeds: int
    drafts: int
    max_depth: int
    max_nodes: int
    finalists: int
    confirm_seeds: int
    job_s: float
    confirm_reserve_s: float
    full_runs: float
    provable_gain: float
    cost: JobCost

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The plan back from `to_json`."""
        return cls(**{**value, "cost": JobCost(**value["cost"])})
