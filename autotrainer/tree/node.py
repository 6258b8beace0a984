"""Node and Outcome: one training attempt of the tree and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Proposal
from autotrainer.tree.score import Score
from autotrainer.tree.state import NodeState, Validity, Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened; exists only for a node in a terminal state.

    `checkpoints` are the steps that can be forked from, ascending; `device_s` the device-seconds of all
    attempts.
    """

    status: str
    reason: str
    steps: int
    checkpoints: tuple[int, ...]
    device_s: float
    start_report: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain JSON values."""
        return {
            "status": self.status,
            "reason": self.reason,
            "steps": self.steps,
            "device_s": self.device_s,
            "checkpoints": list(self.checkpoints),
            "start_report": dict(self.start_report),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Outcome:
        """The outcome back from `to_json`."""
        return cls(
            status=value["status"],
            reason=value["reason"],
            steps=value["steps"],
            device_s=value["device_s"],
            checkpoints=tuple(value["checkpoints"]),
            start_report=dict(value["start_report"]),
        )


@dataclass(frozen=True, slots=True)
class Node:
    """One node: a proposal, where it is, and what came of it. Immutable; the tree replaces it at every event.

    `scores` holds the score of the node's last checkpoint by split; `attempt` counts submitted attempts from
    1.
    """

    id: str
    index: int
    proposal: Proposal
    state: NodeState = NodeState.PROPOSED
    attempt: int = 0
    reason: str = ""
    harness: str = ""
    findings: tuple[Finding, ...] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)
    outcome: Outcome | None = None
    validity: Validity = Validity.VALID
    validity_reason: str = ""
    verdict: Verdict = Verdict.NONE
    verdict_reason: str = ""
    kill_reason: str = ""

    @property
    def parent(self) -> str | None:
        """The first parent; None for the base."""
        return self.proposal.parents[0] if self.proposal.parents else None

    @property
    def job_id(self) -> str:
        """The id of the current attempt's job."""
        return f"{self.id}.{self.attempt}"

    @property
    def last_step(self) -> int:
        """The newest step that can be forked from or scored; 0 for the base."""
        return self.outcome.checkpoints[-1] if self.outcome and self.outcome.checkpoints else 0

    def score(self, split: str = "dev") -> float | None:
        """The mean on a split, None where it was not scored or the node is invalid."""
        found = self.scores.get(split)
        return found.mean if found is not None and self.validity is Validity.VALID else None
