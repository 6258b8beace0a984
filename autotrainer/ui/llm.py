"""A decision of the language model for a person: hypothesis, checks, predictions against what came, diff."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotrainer.planners.llm.calibration import movement
from autotrainer.study.view import StudyView
from autotrainer.ui import text


def decision_of(view: StudyView, node: str) -> Mapping[str, Any] | None:
    """The newest decision about a node, or None where no language model was asked."""
    for event in reversed(view.events):
        if event.kind == "llm_decision" and event.data["node"] == node:
            return event.data
    return None


def decision_text(view: StudyView, decision: str) -> str:
    """A decision by its id, as text."""
    for event in reversed(view.events):
        if event.kind == "llm_decision" and event.data["decision"] == decision:
            return "\n".join([*lines(view, event.data), *diff(event.data).splitlines()])
    return f"there is no decision {decision}"


def lines(view: StudyView, data: Mapping[str, Any]) -> list[str]:
    """What was decided, by whom, what was sent back, what it cost."""
    calls = [
        e.data for e in view.events if e.kind == "llm_settled" and e.data["decision"] == data["decision"]
    ]
    usd = sum(float(call["usd"]) for call in calls)
    cached = sum(bool(call["cached"]) for call in calls)
    rows = [
        f"{data['decision']} by {data['model']}: {data['outcome']}"
        + (f" ({data['reason']})" if data["reason"] else ""),
        f"{len(calls)} calls ({cached} from the cache), {usd:.4f} USD, {data['repairs']} sent back",
    ]
    rows += [f"sent back: {words}" for words in data["rejections"]]
    answer = data.get("answer") or {}
    if answer.get("hypothesis"):
        rows.append(f"hypothesis: {answer['hypothesis']}")
    rows += [f"{c['knob']} = {c['value']}: {c['why']}" for c in answer.get("changes", []) if c.get("why")]
    if answer.get("refuted_by"):
        rows.append(f"refuted by: {answer['refuted_by']}")
    rows += _predictions(view, data)
    if data["gates"]:
        rows.append(f"its edits passed: {', '.join(data['gates'])}")
    rows += [f"transcript: llm/{call['transcript']}" for call in calls]
    return [text.clean(row) for row in rows]


def diff(data: Mapping[str, Any]) -> str:
    """The edits of a decision as a unified diff; empty without edits."""
    return f"{data.get('patch', '')}{data.get('diagnostics_diff', '')}"


def _predictions(view: StudyView, data: Mapping[str, Any]) -> list[str]:
    node = str(data["node"])
    if node not in view.tree or data["outcome"] not in ("accepted", "edits_dropped"):
        return []
    rows = []
    for prediction in view.tree[node].proposal.predictions:
        moved = movement(view.tree, view.metrics, view.tree[node], prediction.metric)
        came = "not known" if moved is None else moved
        verdict = (
            ""
            if moved is None
            else ", as predicted"
            if moved == prediction.direction
            else ", not as predicted"
        )
        rows.append(f"{prediction.metric}: predicted {prediction.direction}, came {came}{verdict}")
    return rows
