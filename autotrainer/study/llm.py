"""RuntimeDesk: what a running study gives to its language-model planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotrainer.errors import ContractError
from autotrainer.planners.llm.desk import Edited, StudyFacts, VetResult
from autotrainer.planners.llm.planner import LlmPlanner
from autotrainer.study import edits as editing
from autotrainer.study.runtime import Runtime
from autotrainer.study.vetting import vet
from autotrainer.tree.proposal import Proposal, Purpose

MAX_ROLLOUT_ROWS = 256


def attach_llm(runtime: Runtime) -> None:
    """Give the runtime's planner its language model, where it is the one that has one."""
    if isinstance(runtime.planner, LlmPlanner):
        runtime.planner.bind(RuntimeDesk(runtime), runtime.config.llm)


@dataclass(frozen=True, slots=True)
class RuntimeDesk:
    """The desk over a runtime; see Desk for what each method promises."""

    runtime: Runtime

    @property
    def cache_dir(self) -> Path:
        """Shared by the studies of a folder, so that an equal study makes no calls."""
        return self.runtime.paths.root.parent / "llm_cache"

    @property
    def transcripts(self) -> Path:
        """One file a call."""
        return self.runtime.paths.root / "llm"

    def record(self, kind: str, **data: Any) -> None:
        """Write an event."""
        self.runtime.record(kind, **data)

    def events(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """The data of all events of a kind."""
        return [event.data for event in self.runtime.journal if event.kind == kind]

    def llm_left_usd(self) -> float:
        """What is left of the grant."""
        return self.runtime.ledger.llm_left

    def seconds_left(self) -> float | None:
        """To the deadline."""
        deadline = self.runtime.ledger.deadline
        return None if deadline is None else max(0.0, deadline - self.runtime.clock())

    def interrupted(self) -> bool:
        """Whether the study is to stop."""
        return self.runtime.should_stop() or self.runtime.should_finish()

    def facts(self) -> StudyFacts:
        """The study as a whole."""
        runtime, plan = self.runtime, self.runtime.plan
        done = len(runtime.tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL))
        return StudyFacts(
            task=runtime.config.task,
            model=runtime.config.model,
            mode=plan.mode,
            nodes_left=max(0, plan.max_nodes - done),
            max_depth=plan.max_depth,
            provable_gain=plan.provable_gain,
            title=_title(runtime.config.task),
        )

    def hints(self) -> Sequence[str]:
        """What a person has said."""
        return [str(data["text"]) for data in self.events("steered")]

    def rollouts(self, node: str) -> Sequence[Mapping[str, Any]]:
        """The newest stored training rollouts of a node."""
        found = self.runtime.tree[node]
        if not found.attempt:
            return []
        folder = self.runtime.paths.job(found.job_id) / "rollouts"
        return read_rollouts(folder, MAX_ROLLOUT_ROWS)

    def harness_files(self, node: str) -> Mapping[str, str]:
        """What may be edited."""
        return editing.editable(self.runtime, node)

    def apply(self, proposal: Proposal, edits: Sequence[Mapping[str, Any]]) -> Edited:
        """Apply edits to the version that the proposal inherits."""
        return editing.apply(self.runtime, proposal, edits)

    def vet(self, proposal: Proposal, edited: Edited) -> VetResult:
        """Run the checks."""
        return vet(self.runtime, proposal, edited)

    def keep(self, proposal: Proposal, edited: Edited) -> None:
        """Take diagnostics into use."""
        editing.keep_diagnostics(self.runtime, edited)

    def approval(self, decision: str) -> tuple[bool, str] | None:
        """What a person said since the decision began to wait."""
        since = 0
        for event in self.runtime.journal:
            if event.kind == "llm_decision" and event.data["decision"] == decision:
                since = event.seq
        for event in reversed(list(self.runtime.journal)):
            if event.seq > since and event.kind == "approval" and event.data["decision"] == decision:
                return bool(event.data["agreed"]), str(event.data["text"])
        return None


def read_rollouts(folder: Path, most: int) -> list[dict[str, Any]]:
    """The newest rows of a folder of rollouts, at most so many; a file that cannot be read is left out."""
    import pyarrow
    import pyarrow.parquet as parquet

    rows: list[dict[str, Any]] = []
    files = sorted(folder.glob("*.parquet"), key=lambda path: (len(path.stem), path.stem), reverse=True)
    columns = ["step", "prompt", "completion", "reward", "finish_reason"]
    for path in files:
        try:
            rows += parquet.read_table(path, columns=columns).to_pylist()
        except (OSError, pyarrow.ArrowException, KeyError):
            continue
        if len(rows) >= most:
            break
    return rows[:most]


def _title(task: str) -> str:
    from autotrainer.study.setup import task_table

    try:
        return str(task_table()[task].get("title", ""))
    except (KeyError, ContractError):
        return ""
