"""StudyView: a study as a reader sees it, rebuilt from its journal.

The one source of `show`, report, page and MLflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from autotrainer.budget.ledger import Ledger
from autotrainer.contract.metrics import Metrics
from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import ConfigError
from autotrainer.search.plan import Plan
from autotrainer.study.config import StudyConfig
from autotrainer.tree.event import Event
from autotrainer.tree.journal import Journal
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Edge
from autotrainer.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class StudyView:
    """Everything that a reader may know, from files alone; changes nothing and takes no lock."""

    paths: StudyPaths
    config: StudyConfig
    events: tuple[Event, ...]
    tree: Tree
    ledger: Ledger

    @classmethod
    def read(cls, root: Path) -> Self:
        """The study in a folder.

        Raises:
            ConfigError: there is no study.
        """
        paths = StudyPaths(root)
        if not paths.config.is_file() or not paths.journal.is_file():
            raise ConfigError(f"{root} holds no study: study.toml or journal.jsonl is missing")
        events = tuple(Journal(paths.journal, read_only=True))
        return cls(paths, StudyConfig.read(paths.config), events, Tree.replay(events), Ledger.replay(events))

    def last(self, kind: str) -> Event | None:
        """The newest event of a kind."""
        return next((event for event in reversed(self.events) if event.kind == kind), None)

    @property
    def plan(self) -> Plan | None:
        """The plan, once the study is prepared."""
        event = self.last("study_prepared")
        return Plan.from_json(event.data["plan"]) if event else None

    @property
    def state(self) -> str:
        """created, prepared, running, paused or finished."""
        names = {
            "study_created": "created",
            "study_prepared": "prepared",
            "study_started": "running",
            "study_resumed": "running",
            "study_paused": "paused",
            "study_finished": "finished",
        }
        return next((names[event.kind] for event in reversed(self.events) if event.kind in names), "created")

    @property
    def simulated(self) -> bool:
        """Whether a simulated landscape was trained instead of a model; every reader says so then."""
        return self.config.executor == "simulated"

    @property
    def phase(self) -> str:
        """The schedule's phase."""
        event = self.last("phase")
        return str(event.data["phase"]) if event else "careful"

    @property
    def summary(self) -> dict[str, Any]:
        """What study_finished recorded: the final figures; empty before."""
        event = self.last("study_finished")
        return dict(event.data["summary"]) if event else {}

    def metrics(self, node_id: str) -> Metrics:
        """The metrics of a node's newest attempt; empty for the base and before it started."""
        node = self.tree[node_id]
        return Metrics.read(self.paths.job(node.job_id) / "metrics.jsonl") if node.attempt else Metrics([])

    def node_cost(self, node_id: str) -> dict[str, float]:
        """Device-seconds of a node: in training attempts and in evaluations."""
        train = sum(s for job, s in self.ledger.settled_jobs.items() if job.rpartition(".")[0] == node_id)
        evaluate = sum(
            float(e.data["device_s"])
            for e in self.events
            if e.kind == "node_scored" and e.data["node"] == node_id
        )
        return {"train_device_s": train, "eval_device_s": evaluate}

    def changes(self, node: Node) -> list[dict[str, Any]]:
        """What the node's last stage has that its parent's (a draft: the careful recipe's) has not."""
        reference = self._reference(node)
        if reference is None:
            return []
        mine = node.proposal.recipe.stages[-1].knobs
        theirs = reference.proposal.recipe.stages[-1].knobs
        rows = [
            {"key": key, "old": theirs.get(key), "new": mine.get(key)}
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key) != theirs.get(key)
        ]
        hooks = {hook.ref for hook in node.proposal.recipe.stages[-1].hooks}
        known = {hook.ref for hook in reference.proposal.recipe.stages[-1].hooks}
        rows += [{"key": f"hook {ref}", "old": None, "new": ref} for ref in sorted(hooks - known)]
        rows += [{"key": f"hook {ref}", "old": ref, "new": None} for ref in sorted(known - hooks)]
        return rows

    def _reference(self, node: Node) -> Node | None:
        if node.proposal.edge is Edge.BASE:
            return None
        for parent in (node.proposal.finding_node, *node.proposal.parents):
            if parent and self.tree[parent].proposal.edge is not Edge.BASE:
                return self.tree[parent]
        first = next((n for n in self.tree.nodes if n.proposal.edge is Edge.DRAFT), None)
        return first if first is not None and first.id != node.id else None

    def to_json(self) -> dict[str, Any]:
        """`show --json`; its schema is docs/show.schema.json."""
        promoted = self.tree.promoted()
        return {
            "schema_version": 1,
            "study": {
                "id": self.config.id,
                "path": str(self.paths.root),
                "task": self.config.task,
                "model": self.config.model,
                "seed": self.config.seed,
                "state": self.state,
                "phase": self.phase,
                "simulated": self.simulated,
            },
            "budget": {
                "text": self.config.budget_text,
                "granted": self.ledger.granted,
                "used": self.ledger.used,
                "reserved": self.ledger.reserved,
                "deadline": self.ledger.deadline,
                "llm_usd": {"granted": self.ledger.llm_granted, "used": self.ledger.llm_used},
            },
            "plan": self.plan.to_json() if self.plan else None,
            "nodes": [self._node_json(node) for node in self.tree.nodes],
            "promoted": promoted.id if promoted else None,
            "summary": self.summary,
        }

    def _node_json(self, node: Node) -> dict[str, Any]:
        proposal = node.proposal
        return {
            "id": node.id,
            "parents": list(proposal.parents),
            "edge": str(proposal.edge),
            "purpose": str(proposal.purpose),
            "start": proposal.start.to_json(),
            "state": str(node.state),
            "reason": node.kill_reason or node.reason,
            "validity": str(node.validity),
            "verdict": str(node.verdict),
            "attempt": node.attempt,
            "seed": proposal.recipe.seed,
            "depth": self.tree.depth(node.id),
            "steps": node.outcome.steps if node.outcome else 0,
            "skills": list(proposal.skills),
            "treats": list(proposal.treats),
            "hypothesis": proposal.hypothesis,
            "planner": proposal.planner,
            "changes": self.changes(node),
            "scores": {split: score.summary() for split, score in node.scores.items()},
            "cost": self.node_cost(node.id),
            "findings": [finding.to_json() for finding in node.findings],
            "diff": node.proposal.patch or "",
        }
