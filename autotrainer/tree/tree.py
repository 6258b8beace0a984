"""Tree: the nodes of a study as a fold over its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

from autotrainer.errors import JournalError
from autotrainer.recipe.recipe import Recipe, Stage
from autotrainer.tree.event import Event
from autotrainer.tree.finding import Finding
from autotrainer.tree.node import Node, Outcome
from autotrainer.tree.proposal import Edge, Proposal, Purpose
from autotrainer.tree.score import Score
from autotrainer.tree.state import TRANSITIONS, NodeState, Validity, Verdict


class Tree:
    """The nodes in the order of their proposal.

    `Tree.replay(events)` equals the live tree for every prefix of a journal.

    Only `apply` changes it. An event that breaks a rule (unknown node, illegal transition, a change of a
    terminal node's outcome) raises JournalError and leaves the tree as it was.
    """

    def __init__(self) -> None:
        """An empty tree."""
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = {}

    @classmethod
    def replay(cls, events: Iterable[Event]) -> Self:
        """The tree after the events."""
        tree = cls()
        for event in events:
            tree.apply(event)
        return tree

    def __eq__(self, other: object) -> bool:
        """Equal nodes in equal order."""
        return isinstance(other, Tree) and list(self._nodes.items()) == list(other._nodes.items())

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, node_id: str) -> bool:
        """Whether there is a node of that id."""
        return node_id in self._nodes

    def __getitem__(self, node_id: str) -> Node:
        """The node of that id; KeyError where there is none."""
        return self._nodes[node_id]

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self._nodes)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in the order of their proposal."""
        return tuple(self._nodes.values())

    def with_state(self, *states: NodeState) -> tuple[Node, ...]:
        """The nodes in any of the states."""
        return tuple(node for node in self._nodes.values() if node.state in states)

    def with_purpose(self, *purposes: Purpose) -> tuple[Node, ...]:
        """The nodes run for any of the purposes."""
        return tuple(node for node in self._nodes.values() if node.proposal.purpose in purposes)

    @property
    def active(self) -> tuple[Node, ...]:
        """The nodes that are not terminal."""
        return tuple(node for node in self._nodes.values() if not node.state.is_terminal)

    @property
    def candidates(self) -> tuple[Node, ...]:
        """Completed, valid nodes of the search with a dev score: what a policy may branch from or promote."""
        wanted = (Purpose.SEARCH, Purpose.CAREFUL)
        return tuple(
            node
            for node in self._nodes.values()
            if node.state is NodeState.COMPLETED
            and node.proposal.purpose in wanted
            and node.score("dev") is not None
        )

    def children(self, node_id: str) -> tuple[Node, ...]:
        """The nodes whose first parent this is."""
        return tuple(self._nodes[child] for child in self._children.get(node_id, ()))

    def lineage(self, node_id: str) -> tuple[Node, ...]:
        """The node and its first parents up to the base, base first."""
        path = [self._nodes[node_id]]
        while (parent := path[-1].parent) is not None:
            path.append(self._nodes[parent])
        return tuple(reversed(path))

    def depth(self, node_id: str) -> int:
        """Number of edges to the base."""
        return len(self.lineage(node_id)) - 1

    def path_stages(self, node_id: str) -> tuple[Stage, ...]:
        """The stages from the base model to the node's last checkpoint, cut where a child branched off."""
        node = self._nodes[node_id]
        own = node.proposal.recipe.stages
        start = node.proposal.start
        if start.mode == "base" or start.node is None:
            return own
        return (*_cut(self.path_stages_until(start.node, start.step)), *own)

    def path_stages_until(self, node_id: str, step: int) -> tuple[Stage, ...]:
        """The stages that lead to a node's checkpoint at `step` (its own count of steps)."""
        node = self._nodes[node_id]
        stages: list[Stage] = []
        left = step
        for stage in node.proposal.recipe.stages:
            if left <= 0:
                break
            stages.append(replace(stage, steps=min(stage.steps, left)))
            left -= stage.steps
        start = node.proposal.start
        if start.mode == "base" or start.node is None:
            return tuple(stages)
        return (*self.path_stages_until(start.node, start.step), *stages)

    def path_recipe(self, node_id: str, seed: int) -> Recipe:
        """The whole path from the base as one recipe with its own seed."""
        return replace(self._nodes[node_id].proposal.recipe, stages=self.path_stages(node_id), seed=seed)

    def best(self, split: str = "dev") -> Node | None:
        """The candidate with the highest mean; the earlier one where means are equal."""
        return max(self.candidates, key=lambda node: (node.score(split) or 0.0, -node.index), default=None)

    def promoted(self) -> Node | None:
        """The node that passed the gates last and was not superseded."""
        return next((n for n in reversed(self.nodes) if n.verdict is Verdict.PROMOTED), None)

    def with_scores(self, scores: Mapping[str, Mapping[str, Score]]) -> Tree:
        """A copy whose nodes carry these scores (by node and split): those with items, for judging."""
        copy = Tree()
        copy._children = self._children
        copy._nodes = {
            node.id: replace(node, scores={**node.scores, **scores.get(node.id, {})}) for node in self.nodes
        }
        return copy

    def apply(self, event: Event) -> None:
        """Fold one event in; kinds that do not concern nodes are ignored."""
        if event.kind == "node_proposed":
            self._propose(event.data)
            return
        fold = _FOLDS.get(event.kind)
        if fold is None:
            return
        node = self._nodes.get(event.data["node"])
        if node is None:
            raise JournalError(f"event {event.seq} ({event.kind}) names unknown node {event.data['node']!r}")
        self._nodes[node.id] = fold(node, event.data)

    def _propose(self, data: Mapping[str, Any]) -> None:
        node = Node(id=data["node"], index=data["index"], proposal=Proposal.from_json(data["proposal"]))
        if node.id in self._nodes or node.index != len(self._nodes):
            raise JournalError(
                f"node {node.id} with index {node.index} does not follow {len(self._nodes)} nodes"
            )
        for parent in node.proposal.parents:
            if parent not in self._nodes:
                raise JournalError(f"node {node.id} names unknown parent {parent!r}")
        if not node.proposal.parents and node.proposal.edge is not Edge.BASE:
            raise JournalError(f"node {node.id} has no parent and is not the base")
        self._nodes[node.id] = node
        if node.parent is not None:
            self._children.setdefault(node.parent, []).append(node.id)


def _cut(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(stage for stage in stages if stage.steps > 0)


def _move(node: Node, state: NodeState, **changes: Any) -> Node:
    if state not in TRANSITIONS[node.state]:
        raise JournalError(f"node {node.id} cannot go from {node.state} to {state}")
    return replace(node, state=state, **changes)


def _submitted(node: Node, data: Mapping[str, Any]) -> Node:
    if data["attempt"] != node.attempt + 1:
        raise JournalError(f"node {node.id}: attempt {data['attempt']} does not follow {node.attempt}")
    return _move(node, NodeState.RUNNING, attempt=data["attempt"])


def _found(node: Node, data: Mapping[str, Any]) -> Node:
    return replace(node, findings=(*node.findings, Finding.from_json(data["finding"])))


def _trained(node: Node, data: Mapping[str, Any]) -> Node:
    if node.outcome is not None:
        raise JournalError(f"node {node.id} has an outcome already")
    return replace(node, outcome=Outcome.from_json(data["outcome"]))


def _removed(node: Node, data: Mapping[str, Any]) -> Node:
    if node.outcome is None or not set(data["kept"]) <= set(node.outcome.checkpoints):
        raise JournalError(f"node {node.id}: {data['kept']} are not among its checkpoints")
    return replace(node, outcome=replace(node.outcome, checkpoints=tuple(sorted(data["kept"]))))


def _scored(node: Node, data: Mapping[str, Any]) -> Node:
    score = Score.from_json(data["score"])
    return replace(node, scores={**node.scores, score.split: score})


_FOLDS: Mapping[str, Callable[[Node, Mapping[str, Any]], Node]] = {
    "node_queued": lambda node, data: _move(node, NodeState.QUEUED, harness=data["harness"]),
    "job_submitted": _submitted,
    "node_state": lambda node, data: _move(node, NodeState(data["state"]), reason=data["reason"]),
    "node_finding": _found,
    "kill_requested": lambda node, data: replace(node, kill_reason=data["reason"]),
    "node_trained": _trained,
    "checkpoints_removed": _removed,
    "node_scored": _scored,
    "node_validity": lambda node, data: replace(
        node, validity=Validity(data["validity"]), validity_reason=data["reason"]
    ),
    "node_verdict": lambda node, data: replace(
        node, verdict=Verdict(data["verdict"]), verdict_reason=data["reason"]
    ),
}
