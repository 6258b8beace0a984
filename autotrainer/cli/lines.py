"""Events of a study as lines for a person; what is of no interest to one has no line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotrainer.study.view import StudyView
    from autotrainer.tree.event import Event

_MOST_CHANGES = 4


def event_line(event: Event, view: StudyView) -> str | None:
    """The line of an event, or None."""
    write = _LINES.get(event.kind)
    return write(event.data, view) if write is not None else None


def changes_text(changes: list[dict[str, Any]]) -> str:
    """Changes of a node as `key old→new`, cut after a few."""
    shown = [
        f"{change['key']} {_short(change['old'])}→{_short(change['new'])}"
        for change in changes[:_MOST_CHANGES]
    ]
    more = f" and {len(changes) - _MOST_CHANGES} more" if len(changes) > _MOST_CHANGES else ""
    return ", ".join(shown) + more


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "-" if value is None else str(value)


def _started(data: Mapping[str, Any], view: StudyView) -> str:
    return f"the clock starts: {view.config.budget_text}, {data['granted']:.0f} device-seconds"


def _proposed(data: Mapping[str, Any], view: StudyView) -> str:
    node = view.tree[data["node"]]
    proposal = node.proposal
    start = proposal.start
    origin = f" from {start.node} step {start.step}" if start.node else ""
    changes = changes_text(view.changes(node))
    skills = f" by {', '.join(proposal.skills)}" if proposal.skills else ""
    return f"{node.id} {proposal.purpose} {proposal.edge}{origin}{skills}" + (
        f": {changes}" if changes else ""
    )


def _submitted(data: Mapping[str, Any], view: StudyView) -> str:
    attempt = f", attempt {data['attempt']}" if data["attempt"] > 1 else ""
    return f"{data['node']} runs{attempt}"


def _state(data: Mapping[str, Any], view: StudyView) -> str | None:
    if data["state"] in ("evaluating", "queued", "running"):
        return None
    score = view.tree[data["node"]].score("dev")
    figure = f", dev {score:.3f}" if score is not None else ""
    reason = f": {data['reason']}" if data["reason"] and data["state"] != "completed" else ""
    return f"{data['node']} {data['state']}{figure}{reason}"


def _finding(data: Mapping[str, Any], view: StudyView) -> str:
    finding = data["finding"]
    return f"{data['node']} shows {finding['kind']}: {finding['message']}"


def _verdict(data: Mapping[str, Any], view: StudyView) -> str:
    return f"{data['node']} {data['verdict']}: {data['reason']}"


def _llm_decision(data: Mapping[str, Any], view: StudyView) -> str | None:
    outcome, reason = data["outcome"], data["reason"]
    if outcome == "accepted":
        return None  # the node's own line follows
    words = {
        "waiting": f"{data['decision']} waits for a person: autotrainer approve {view.config.id}",
        "edits_dropped": f"{data['node']} goes on without the model's edits",
        "stop": "the language model ends the search",
    }
    return f"{words.get(outcome, f'rules planner instead of the language model ({outcome})')}: {reason}"


_LINES: Mapping[str, Callable[[Mapping[str, Any], StudyView], str | None]] = {
    "study_started": _started,
    "study_paused": lambda data, view: f"paused: {data['reason']}",
    "study_resumed": lambda data, view: f"resumed: {data['reason']}",
    "study_finished": lambda data, view: f"finished: {data['reason']}",
    "phase": lambda data, view: f"phase {data['phase']}: {data['reason']}",
    "node_proposed": _proposed,
    "job_submitted": _submitted,
    "node_state": _state,
    "node_finding": _finding,
    "kill_requested": lambda data, view: f"{data['node']} is stopped early: {data['reason']}",
    "node_validity": lambda data, view: f"{data['node']} is {data['validity']}: {data['reason']}",
    "node_verdict": _verdict,
    "llm_decision": _llm_decision,
    "steered": lambda data, view: f"hint: {data['text']}",
    "approval": lambda data, view: f"decision {data['decision']} {'agreed' if data['agreed'] else 'refused'}",
}
