"""TreeBuilder: trees by hand, event by event, for tests of planners, policies, schedules and gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotrainer.recipe.careful import careful_recipe
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.event import Event
from autotrainer.tree.finding import Evidence, Finding, Severity
from autotrainer.tree.node import Outcome
from autotrainer.tree.proposal import Edge, Proposal, Purpose, Start
from autotrainer.tree.score import Score
from autotrainer.tree.tree import Tree


def a_finding(
    kind: str = "collapse", *, severity: Severity = Severity.CRITICAL, onset: int = 10, kills: bool = True
) -> Finding:
    """A finding with one piece of evidence; by default one that kills."""
    return Finding(
        kind=kind,
        pathology="P01",
        severity=severity,
        confidence=0.9,
        onset_step=onset,
        message=f"{kind} seen",
        evidence=(Evidence("reward", (max(0, onset - 5), onset), 0.0, 0.1),),
        kills=kills,
    )


def a_score(split: str, mean: float, *, n: int = 100) -> Score:
    """A score with items, the first `mean * n` (rounded) of them solved: better scores solve a superset."""
    items = {f"i{place:04d}": float(place < round(mean * n)) for place in range(n)}
    return Score.from_items(split, items, samples=1, seeds=(0,), greedy=mean)


@dataclass
class TreeBuilder:
    """Builds a tree through events, so that only legal trees come out; `events` is the journal it would have.

    The careful recipe is the tiny model's on `math` with `steps` steps; every node takes a fresh seed.
    """

    steps: int = 60
    overrides: Mapping[str, KnobValue] = field(default_factory=dict)
    tree: Tree = field(default_factory=Tree)
    events: list[Event] = field(default_factory=list)

    @property
    def careful(self) -> Recipe:
        """The study's careful recipe."""
        return careful_recipe("tiny", "math", 0, self.steps, 6, self.overrides)

    def emit(self, kind: str, **data: Any) -> Event:
        """Apply one event."""
        event = Event(len(self.events), float(len(self.events)), kind, data)
        self.tree.apply(event)
        self.events.append(event)
        return event

    def propose(self, proposal: Proposal) -> str:
        """Add a proposed node and return its id."""
        index = len(self.tree)
        self.emit("node_proposed", node=f"n{index:03d}", index=index, proposal=proposal.to_json())
        return f"n{index:03d}"

    def base(self, dev: float | None = 0.3, holdout: float | None = 0.3) -> str:
        """The base model's node, scored."""
        node = self.propose(Proposal(Edge.BASE, Purpose.BASE, (), Start(), self.careful, "the base model"))
        self.emit("node_queued", node=node, harness="")
        self.emit("node_state", node=node, state="evaluating", reason="nothing to train")
        return self._score(node, dev, holdout)

    def node(
        self,
        parent: str = "n000",
        *,
        purpose: Purpose = Purpose.SEARCH,
        edge: Edge | None = None,
        knobs: Mapping[str, KnobValue] | None = None,
        parents: Sequence[str] = (),
        skills: Sequence[str] = (),
        finding_node: str | None = None,
        steps: int | None = None,
        start: Start | None = None,
    ) -> str:
        """A proposed node: from the base a draft, from another node a transition at its last checkpoint."""
        index, root = len(self.tree), parent == "n000"
        own = (
            self.careful if root else Recipe("tiny", "math", self.tree[parent].proposal.recipe.stages[-1:], 0)
        )
        recipe = own.with_knobs(knobs or {})
        if steps is not None:
            recipe = careful_recipe("tiny", "math", 0, steps, 6, {**recipe.stages[-1].knobs})
        begin = Start() if root else Start("weights", parent, self.tree[parent].last_step)
        return self.propose(
            Proposal(
                edge=edge or (Edge.DRAFT if root else Edge.TRANSITION),
                purpose=purpose,
                parents=tuple(parents) or (parent,),
                start=start or begin,
                recipe=Recipe(recipe.model, recipe.task, recipe.stages, 1000 + index),
                hypothesis="by hand",
                skills=tuple(skills),
                finding_node=finding_node,
                planner="hand",
            )
        )

    def running(self, node: str) -> str:
        """Let a proposed node run."""
        attempt = self.tree[node].attempt + 1
        self.emit("node_queued", node=node, harness="0" * 40)
        self.emit("job_submitted", node=node, attempt=attempt, job_id=f"{node}.{attempt}", device_s=20.0)
        return node

    def trained(self, node: str, status: str = "completed", checkpoints: Sequence[int] | None = None) -> str:
        """End a running node's training; by default with checkpoints at a third, two thirds and the end."""
        steps = self.tree[node].proposal.recipe.steps
        kept = (
            tuple(checkpoints)
            if checkpoints is not None
            else tuple(sorted({steps // 3, 2 * steps // 3, steps}))
        )
        outcome = Outcome(status, "by hand", kept[-1] if kept else 0, kept, 15.0)
        job = self.tree[node].job_id
        self.emit("job_settled", job_id=job, node=node, device_s=15.0, status=status)
        self.emit("node_trained", node=node, outcome=outcome.to_json())
        return node

    def completed(
        self, node: str, dev: float, holdout: float | None = None, findings: Sequence[Finding] = ()
    ) -> str:
        """Run a proposed node to its end and score it."""
        self.trained(self.running(node))
        self.found(node, findings)
        self.emit("node_state", node=node, state="evaluating", reason="trained to its step limit")
        return self._score(node, dev, holdout)

    def pruned(self, node: str, *findings: Finding, checkpoints: Sequence[int] = ()) -> str:
        """Run a proposed node until a kill rule stops it."""
        self.running(node)
        self.found(node, findings)
        self.emit("kill_requested", node=node, rule="fatal-finding", reason="by hand")
        self.trained(node, "stopped", checkpoints)
        self.emit("node_state", node=node, state="pruned", reason="by hand")
        return node

    def found(self, node: str, findings: Sequence[Finding]) -> None:
        """Add findings to a node."""
        for finding in findings:
            self.emit("node_finding", node=node, finding=finding.to_json())

    def careful_seeds(self, *devs: float) -> list[str]:
        """Completed careful seeds with these dev scores."""
        return [self.completed(self.node(purpose=Purpose.CAREFUL), dev) for dev in devs]

    def _score(self, node: str, dev: float | None, holdout: float | None) -> str:
        for split, mean in (("dev", dev), ("holdout", holdout)):
            if mean is not None:
                score = a_score(split, mean).to_json()
                self.emit(
                    "node_scored",
                    node=node,
                    step=self.tree[node].last_step,
                    split=split,
                    score=score,
                    device_s=3.0,
                )
        self.emit("node_state", node=node, state="completed", reason="scored")
        return node
