"""What a study decided and why, one line a decision: for the live view and a node's story."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autotrainer.study.view import StudyView
from autotrainer.tree.event import Event
from autotrainer.tree.state import NodeState
from autotrainer.ui import facts, text


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision: when (epoch seconds), about which node ("" for the study), and the words."""

    time: float
    node: str
    words: str


def decisions(view: StudyView, *, node: str | None = None, most: int | None = None) -> list[Decision]:
    """The newest decisions, oldest first; about one node, where it is given."""
    found: list[Decision] = []
    for event in reversed(view.events):
        about = str(event.data.get("node", ""))
        write = _WORDS.get(event.kind)
        if write is None or (node is not None and about != node):
            continue
        words = write(event, view)
        if words:
            found.append(Decision(event.time, about, text.clean(words)))
        if most is not None and len(found) >= most:
            break
    return found[::-1]


def _proposed(event: Event, view: StudyView) -> str:
    node = view.tree[event.data["node"]]
    proposal = node.proposal
    what = ", ".join(proposal.skills) or str(proposal.edge)
    changed = text.changes(view.changes(node), most=2)
    start = facts.trained_from(node)
    return f"{node.id} {what} from {start}{': ' if changed else ''}{changed}; {proposal.hypothesis}"


def _state(event: Event, view: StudyView) -> str:
    data = event.data
    if not NodeState(data["state"]).is_terminal:
        return (
            f"{data['node']} {data['state']}: {data['reason']}" if data["state"] == NodeState.QUEUED else ""
        )
    node = view.tree[data["node"]]
    score = node.scores.get("dev")
    if data["state"] == NodeState.COMPLETED and score is not None:
        parent = view.tree[node.parent].score("dev") if node.parent else None
        against = f", {text.points(score.mean - parent)} from {node.parent}" if parent is not None else ""
        return f"{node.id} completed: dev {text.percent(score.mean)}{against}"
    if node.kill_reason == data["reason"]:
        return f"{node.id} {data['state']}"
    return f"{node.id} {data['state']}: {data['reason']}"


def _finding(event: Event, view: StudyView) -> str:
    finding = event.data["finding"]
    onset = finding["onset_step"]
    return f"{event.data['node']} shows {finding['kind']} from step {onset}: {finding['message']}"


def _about(word: str, reason: str = "reason") -> Callable[[Event, StudyView], str]:
    def write(event: Event, view: StudyView) -> str:
        data: Mapping[str, Any] = event.data
        return f"{data['node']} {data.get(word, word)}: {data[reason]}"

    return write


_WORDS: Mapping[str, Callable[[Event, StudyView], str]] = {
    "node_proposed": _proposed,
    "node_state": _state,
    "node_finding": _finding,
    "kill_requested": _about("is stopped early"),
    "node_validity": _about("validity"),
    "node_verdict": _about("verdict"),
    "llm_decision": lambda event, view: (
        f"{event.data['decision']} {event.data['outcome']}: {event.data['reason']}"
        if event.data["reason"]
        else ""
    ),
    "steered": lambda event, view: f"hint of a person: {event.data['text']}",
    "phase": lambda event, view: f"phase {event.data['phase']}: {event.data['reason']}",
    "study_paused": lambda event, view: f"paused: {event.data['reason']}",
    "study_resumed": lambda event, view: f"resumed: {event.data['reason']}",
    "study_finished": lambda event, view: f"finished: {event.data['reason']}",
}
