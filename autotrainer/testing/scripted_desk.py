"""ScriptedDesk: a study's side of the language-model planner, in memory; a public fake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotrainer.budget.ledger import Ledger
from autotrainer.planners.llm.desk import Edited, StudyFacts, VetResult
from autotrainer.tree.event import Event
from autotrainer.tree.proposal import Proposal
from autotrainer.workspace.edits import apply_edits, unified_diff


@dataclass
class ScriptedDesk:
    """Events go into a list and through a real ledger with the grant; vetting says what `verdicts` say."""

    folder: Path
    granted_usd: float = 5.0
    files: dict[str, str] = field(default_factory=dict)
    verdicts: list[VetResult] = field(default_factory=list)
    rollout_rows: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    approvals: dict[str, tuple[bool, str]] = field(default_factory=dict)
    nodes_left: int = 10
    stop: bool = False
    kept: list[Edited] = field(default_factory=list)
    log: list[Event] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        """Grant the money."""
        self.ledger.llm_granted = self.granted_usd

    @property
    def cache_dir(self) -> Path:
        """In the folder."""
        return self.folder / "cache"

    @property
    def transcripts(self) -> Path:
        """In the folder."""
        return self.folder / "llm"

    def record(self, kind: str, **data: Any) -> None:
        """Write an event, past the ledger."""
        event = Event(len(self.log), 0.0, kind, data)
        self.ledger.apply(event)
        self.log.append(event)

    def events(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """The data of the events of a kind."""
        return [event.data for event in self.log if event.kind == kind]

    def llm_left_usd(self) -> float:
        """By the ledger."""
        return self.ledger.llm_left

    def seconds_left(self) -> float | None:
        """No deadline."""
        return None

    def interrupted(self) -> bool:
        """As set."""
        return self.stop

    def facts(self) -> StudyFacts:
        """A small study of arithmetic."""
        return StudyFacts("math", "tiny", "tree", self.nodes_left, 4, 0.03, "arithmetic")

    def hints(self) -> Sequence[str]:
        """As set."""
        return self.said

    def rollouts(self, node: str) -> Sequence[Mapping[str, Any]]:
        """As set, for every node."""
        return self.rollout_rows

    def harness_files(self, node: str) -> Mapping[str, str]:
        """As set, for every node."""
        return self.files

    def apply(self, proposal: Proposal, edits: Sequence[Mapping[str, Any]]) -> Edited:
        """Apply them to the files in earnest."""
        changed = apply_edits(self.files, edits)
        own = [edit for edit in changed if edit.path.startswith("diagnostics/")]
        code = [edit for edit in changed if edit not in own]
        return Edited(
            unified_diff(code),
            {Path(edit.path).name: edit.after for edit in own},
            unified_diff(own),
            {edit.path: edit.after for edit in changed},
        )

    def vet(self, proposal: Proposal, edited: Edited) -> VetResult:
        """The next verdict; a pass where there are none left."""
        return self.verdicts.pop(0) if self.verdicts else VetResult(True, gates=("scripted",))

    def keep(self, proposal: Proposal, edited: Edited) -> None:
        """Remember it."""
        self.kept.append(edited)

    def approval(self, decision: str) -> tuple[bool, str] | None:
        """As set."""
        return self.approvals.get(decision)
