"""Tree: the nodes of a study as a fold over its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

from autotrainer.errors import JournalError
from autotrainer.recipe.recipe import Recipe, Stage
from autotrainer.tree.bulk import without_collection
from autotrainer.tree.event import Event
from autotrainer.tree.finding import Finding
from autotrainer.tree.levels import Entry, Levels
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
        self._depths: dict[str, int] = {}
        self._below: dict[str, int] = {}
        self._states: dict[NodeState, set[str]] = {state: set() for state in NodeState}
        self._purposes: dict[Purpose, list[str]] = {purpose: [] for purpose in Purpose}
        self._answered: set[str] = set()
        self.levels = Levels()

    @classmethod
    def replay(cls, events: Iterable[Event]) -> Self:
        """The tree after the events."""
        tree = cls()
        with without_collection():
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
        found = [self._nodes[node] for state in set(states) for node in self._states[state]]
        return tuple(sorted(found, key=_index))

    def with_purpose(self, *purposes: Purpose) -> tuple[Node, ...]:
        """The nodes run for any of the purposes."""
        wanted = set(purposes)
        found = [self._nodes[node] for purpose in wanted for node in self._purposes[purpose]]
        return tuple(found if len(wanted) == 1 else sorted(found, key=_index))

    @property
    def active(self) -> tuple[Node, ...]:
        """The nodes that are not terminal."""
        return self.with_state(*(state for state in NodeState if not state.is_terminal))

    @property
    def candidates(self) -> tuple[Node, ...]:
        """Completed, valid nodes of the search with a dev score: what a policy may branch from or promote."""
        found = [self._nodes[node] for level in self.levels.by_depth.values() for _, _, node in level.entries]
        return tuple(sorted(found, key=_index))

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
        return self._depths[node_id]

    def below(self, node_id: str) -> int:
        """Size of the subtree of first children, the node itself included."""
        return self._below[node_id]

    def count(self, *purposes: Purpose) -> int:
        """Number of nodes run for any of the purposes."""
        return sum(len(self._purposes[purpose]) for purpose in set(purposes))

    @property
    def answered(self) -> frozenset[str]:
        """The nodes because of whose finding another one was proposed."""
        return frozenset(self._answered)

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
        for node in self.nodes:
            copy._insert(replace(node, scores={**node.scores, **scores.get(node.id, {})}))
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
        self._replace(node, fold(node, event.data))

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
        self._insert(node)

    def _insert(self, node: Node) -> None:
        """Put a new node into the tree and its indexes."""
        self._nodes[node.id] = node
        self._states[node.state].add(node.id)
        self._purposes[node.proposal.purpose].append(node.id)
        self._depths[node.id] = 0 if node.parent is None else self._depths[node.parent] + 1
        self._below[node.id] = 1
        above = node.parent
        if above is not None:
            self._children.setdefault(above, []).append(node.id)
        while above is not None:
            self._below[above] += 1
            above = self._nodes[above].parent
        if node.proposal.finding_node is not None:
            self._answered.add(node.proposal.finding_node)
        entry = _entry(node)
        if entry is not None:
            self.levels.add(self._depths[node.id], entry)

    def _replace(self, old: Node, new: Node) -> None:
        self._nodes[new.id] = new
        if old.state is not new.state:
            self._states[old.state].discard(old.id)
            self._states[new.state].add(new.id)
        before, after = _entry(old), _entry(new)
        if before != after:
            depth = self._depths[new.id]
            if before is not None:
                self.levels.remove(depth, before)
            if after is not None:
                self.levels.add(depth, after)


def _index(node: Node) -> int:
    return node.index


def _entry(node: Node) -> Entry | None:
    """A candidate's entry in the levels; None for a node that is none."""
    if node.state is not NodeState.COMPLETED or node.proposal.purpose not in (
        Purpose.SEARCH,
        Purpose.CAREFUL,
    ):
        return None
    score = node.score("dev")
    return None if score is None else (score, -node.index, node.id)


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
