"""Ledger: device-seconds reserved and used, as a fold over the journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from autotrainer.errors import BudgetExceededError, JournalError
from autotrainer.tree.event import Event


class Ledger:
    """What was granted, what running jobs hold (leases), and what was used.

    Settling is idempotent per job id.

    A job's lease is written with `job_submitted` and turns into use with `job_settled`; evaluations are
    charged with `node_scored`, anything else with `charge`. A job may use more than its lease: use is what
    the clock says.
    """

    def __init__(self) -> None:
        """An empty ledger: nothing granted."""
        self.granted = 0.0
        self.used = 0.0
        self.deadline: float | None = None
        self._leases: dict[str, float] = {}
        self._settled: dict[str, float] = {}

    @classmethod
    def replay(cls, events: Iterable[Event]) -> Self:
        """The ledger after the events."""
        ledger = cls()
        for event in events:
            ledger.apply(event)
        return ledger

    @property
    def reserved(self) -> float:
        """Device-seconds held by jobs that have not ended."""
        return sum(self._leases.values())

    @property
    def remaining(self) -> float:
        """Device-seconds that are neither used nor reserved; never below zero."""
        return max(0.0, self.granted - self.used - self.reserved)

    @property
    def settled_jobs(self) -> dict[str, float]:
        """Device-seconds by job id, for those that ended."""
        return dict(self._settled)

    @property
    def leased_jobs(self) -> tuple[str, ...]:
        """The ids of the jobs that hold a lease."""
        return tuple(self._leases)

    def check(self, job_id: str, device_s: float) -> None:
        """Refuse a reservation that does not fit.

        Raises:
            BudgetExceededError: it does not; the message has what was asked, used, reserved and granted.
        """
        if device_s > self.remaining:
            raise BudgetExceededError(
                f"{job_id} needs {device_s:.0f} device-seconds; {self.remaining:.0f} of "
                f"{self.granted:.0f} are left "
                f"({self.used:.0f} used, {self.reserved:.0f} reserved)"
            )

    def apply(self, event: Event) -> None:
        """Fold one event in."""
        data = event.data
        if event.kind == "study_started":
            self.granted, self.deadline = float(data["granted"]), float(data["deadline"])
        elif event.kind == "study_resumed":
            self.deadline = float(data["deadline"])
        elif event.kind == "job_submitted":
            if data["job_id"] in self._leases or data["job_id"] in self._settled:
                raise JournalError(f"job {data['job_id']} was submitted twice")
            self._leases[data["job_id"]] = float(data["device_s"])
        elif event.kind == "job_settled":
            if data["job_id"] in self._settled:
                return
            self._leases.pop(data["job_id"], None)
            self._settled[data["job_id"]] = float(data["device_s"])
            self.used += float(data["device_s"])
        elif event.kind in ("node_scored", "charge"):
            self.used += float(data["device_s"])
