"""Desk: what the language-model planner is given by the study that it works for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from autotrainer.tree.proposal import Proposal


@dataclass(frozen=True, slots=True)
class StudyFacts:
    """What a digest says of the study as a whole; nothing here depends on the clock."""

    task: str
    model: str
    mode: str
    nodes_left: int
    max_depth: int
    provable_gain: float
    title: str = ""
    task_facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VetResult:
    """What vetting says: `gate` is the one that refused, empty where all passed; `reason` for the author."""

    ok: bool
    gate: str = ""
    reason: str = ""
    gates: tuple[str, ...] = ()
    """The gates that ran, in order."""


@dataclass(frozen=True, slots=True)
class Edited:
    """Edits as they would enter a version: the unified diff of the workspace, and the study's diagnostics."""

    patch: str = ""
    diagnostics: Mapping[str, str] = field(default_factory=dict)
    """New content by file name."""
    diagnostics_diff: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """The edited files as they will be, by path."""


class Desk(Protocol):
    """Everything outside of the planner that it touches. One thread calls it: the study's own."""

    @property
    def cache_dir(self) -> Path:
        """Where answers are kept, by the hash of the request."""

    @property
    def transcripts(self) -> Path:
        """Where requests and answers of this study are kept for people to read."""

    def record(self, kind: str, **data: Any) -> None:
        """Write an event into the study's journal."""

    def events(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """The data of all events of a kind, oldest first."""

    def llm_left_usd(self) -> float:
        """What is neither spent nor reserved of the grant."""

    def seconds_left(self) -> float | None:
        """Wall time to the deadline; None before there is one."""

    def interrupted(self) -> bool:
        """Whether the study is to stop, so that no answer is waited for."""

    def facts(self) -> StudyFacts:
        """The study as a whole."""

    def hints(self) -> Sequence[str]:
        """What a person has said, oldest first."""

    def rollouts(self, node: str) -> Sequence[Mapping[str, Any]]:
        """Some stored training rollouts of a node: step, prompt, completion, reward, finish_reason."""

    def harness_files(self, node: str) -> Mapping[str, str]:
        """The editable files of a node's harness version, and the study's diagnostics, by path."""

    def apply(self, proposal: Proposal, edits: Sequence[Mapping[str, Any]]) -> Edited:
        """Apply edits to the version that the proposal would inherit.

        Raises:
            WorkspaceError: they do not apply, or reach beyond what may be edited; for the author.
        """

    def vet(self, proposal: Proposal, edited: Edited) -> VetResult:
        """Run the checks that edited code has to pass before a node may use it."""

    def keep(self, proposal: Proposal, edited: Edited) -> None:
        """Take vetted diagnostics into use."""

    def approval(self, decision: str) -> tuple[bool, str] | None:
        """What a person said to a decision: (agreed, words); None as long as nobody did."""
