"""Ledger: device-seconds reserved and used, as a fold over the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

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
        self.llm_granted = 0.0
        self.llm_used = 0.0
        self._llm_leases: dict[int, float] = {}
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
    def llm_left(self) -> float:
        """USD for language models that are neither spent nor reserved; never below zero.

        A call that a crash cut off keeps its reservation: nobody knows what it has cost.
        """
        return max(0.0, self.llm_granted - self.llm_used - sum(self._llm_leases.values()))

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
        if event.kind == "study_created":
            self.llm_granted = _llm_grant(data)
        elif event.kind == "llm_reserved":
            if float(data["usd"]) > self.llm_left:
                raise JournalError(f"LLM call {data['call']} reserves more than {self.llm_left:.4f} USD")
            self._llm_leases[int(data["call"])] = float(data["usd"])
        elif event.kind == "llm_settled":
            lease = self._llm_leases.pop(int(data["call"]), 0.0)
            self.llm_used += min(float(data["usd"]), lease)
        elif event.kind == "study_started":
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


def _llm_grant(data: Mapping[str, Any]) -> float:
    """USD that a study's config grants to its language model; 0 without one."""
    llm = data.get("config", {}).get("llm") or {}
    return float(llm.get("budget_usd", 0.0)) if llm.get("model") else 0.0
