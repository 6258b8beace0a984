"""Event: one line of the journal, and the table of kinds.

| kind | data | written |
| --- | --- | --- |
| study_created | study, seed, config (what study.toml says) | first, once |
| study_prepared | manifest, model_path, plan, beliefs (by skill) | data, vault and pristine harness exist |
| study_started | deadline (epoch seconds), granted (device-seconds) | the budget's clock starts |
| study_paused, study_resumed | reason; resumed: deadline | a stop by a person; time between does not count |
| study_finished | reason, summary | once, last |
| phase | phase, reason, confirm_seeds (to confirm only) | the schedule moved on |
| node_proposed | node, index, proposal | before its workspace is built |
| node_queued | node, harness (commit) | the workspace is built |
| job_submitted | node, attempt, job_id, device_s (reserved) | before the executor is asked: the lease |
| job_settled | job_id, node, device_s, status | once per job id, after it ended |
| node_state | node, state, reason | every other transition |
| node_finding | node, finding | each kind once a node |
| kill_requested | node, rule, reason | before control.json asks for it |
| node_trained | node, outcome | training ended; scores follow |
| eval_requested | node, step, split, request | before the request is written |
| node_scored | node, step, split, score (without items), device_s | the evaluator answered |
| node_validity | node, validity, reason | |
| node_verdict | node, verdict, reason, figures | |
| checkpoints_removed | node, kept (steps) | before old checkpoints are deleted to save disk |
| charge | what, device_s | other device time (evaluator start, audits) |
| llm_reserved | call, usd (the most that the call can cost) | before a language model is called |
| llm_settled | call, usd, model, role, decision, cached, error, transcript ... | once per call, after it |
| llm_decision | decision, node (if it becomes one), outcome, reason, answer, patch ... | per outcome |
| steered | text | a person's hint was taken in |
| approval | decision, agreed, text | a person has said yes or no to a decision |
| note | text, data | for people |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotrainer.errors import JournalError
from autotrainer.files import SCHEMA_VERSION

KINDS = frozenset(
    [
        "study_created",
        "study_prepared",
        "study_started",
        "study_paused",
        "study_resumed",
        "study_finished",
        "phase",
        "node_proposed",
        "node_queued",
        "job_submitted",
        "job_settled",
        "node_state",
        "node_finding",
        "kill_requested",
        "node_trained",
        "eval_requested",
        "node_scored",
        "node_validity",
        "node_verdict",
        "checkpoints_removed",
        "charge",
        "llm_reserved",
        "llm_settled",
        "llm_decision",
        "steered",
        "approval",
        "note",
    ]
)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: its place in the journal, when (epoch seconds), what, and the details."""

    seq: int
    time: float
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The event as a journal line."""
        return {
            "schema_version": SCHEMA_VERSION,
            "seq": self.seq,
            "time": self.time,
            "kind": self.kind,
            "data": dict(self.data),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Event:
        """The event back from a journal line.

        Raises:
            JournalError: the line is of another version, or its kind is unknown.
        """
        version, kind = value.get("schema_version"), value.get("kind")
        if version != SCHEMA_VERSION:
            raise JournalError(
                f"journal line has schema_version {version!r}, this program reads {SCHEMA_VERSION}"
            )
        if kind not in KINDS:
            raise JournalError(f"journal line {value.get('seq')!r} has unknown kind {kind!r}")
        return cls(seq=value["seq"], time=value["time"], kind=kind, data=value["data"])
