"""What a study looks like as MLflow runs: names, tags, parameters, status, metrics; functions of the view."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from autotrainer.files import dumps
from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Edge
from autotrainer.tree.state import NodeState, Verdict
from autotrainer.ui import facts, text

STUDY, NODE, CREATED = "autotrainer.study", "autotrainer.node", "autotrainer.created"
"""Tags by which runs are found again: the study's id, the node's id ("" for the study's own run), and when
the study was created, which tells two studies of one name apart."""
LOGGED_STEP, ATTEMPT, DIGEST = "autotrainer.logged_step", "autotrainer.attempt", "autotrainer.digest"
PARENT_RUN, NOTE = "mlflow.parentRunId", "mlflow.note.content"
_TAG_LIMIT, _PARAM_LIMIT, _KEY_LIMIT = 5000, 6000, 250
_NOT_IN_KEY = re.compile(r"[^\w\-. /:]", re.ASCII)
_NOT_METRICS = frozenset({"schema_version", "step", "time"})

_STATUS = {
    NodeState.PROPOSED: "SCHEDULED",
    NodeState.QUEUED: "SCHEDULED",
    NodeState.RUNNING: "RUNNING",
    NodeState.EVALUATING: "RUNNING",
    NodeState.COMPLETED: "FINISHED",
    NodeState.PRUNED: "KILLED",
    NodeState.CANCELLED: "KILLED",
    NodeState.FAILED: "FAILED",
    NodeState.CRASHED: "FAILED",
}
_STUDY_STATUS = {"finished": "FINISHED", "paused": "SCHEDULED"}


@dataclass(frozen=True, slots=True)
class Point:
    """One logged value: `time_ms` is epoch milliseconds; logging the same point twice changes nothing."""

    key: str
    value: float
    time_ms: int
    step: int


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it should be. `parent` is the node whose run it hangs under, None for the study's run."""

    name: str
    status: str
    start_ms: int
    end_ms: int | None
    tags: Mapping[str, str]
    params: Mapping[str, str]
    points: tuple[Point, ...]
    parent: str | None = None

    @property
    def digest(self) -> str:
        """Changes when anything of the record does."""
        points = [[point.key, point.value, point.time_ms, point.step] for point in self.points]
        value = [self.name, self.status, self.end_ms, dict(self.tags), dict(self.params), points, self.parent]
        return hashlib.sha256(dumps(value).encode()).hexdigest()[:16]


def study_record(view: StudyView) -> RunRecord:
    """The study's own run."""
    config, plan, promoted = view.config, view.plan, view.tree.promoted()
    finished = view.last("study_finished")
    tags = {
        **_identity(view, ""),
        "autotrainer.state": view.state,
        "autotrainer.phase": view.phase,
        "autotrainer.folder": str(view.paths.root),
        "autotrainer.simulated": str(view.simulated).lower(),
        "autotrainer.mode": plan.mode if plan else "",
        "autotrainer.winner": promoted.id if promoted else "",
        "autotrainer.cost_device_s": f"{view.ledger.used:.1f}",
        NOTE: study_note(view),
    }
    asked = {
        "task": config.task,
        "model": config.model,
        "budget": config.budget_text,
        "seed": config.seed,
        "planner": config.planner,
        "policy": config.policy,
        **{f"recipe.{key}": value for key, value in config.recipe.items()},
    }
    end_ms = _ms(finished.time) if finished else None
    return RunRecord(
        name=config.id,
        status=_STUDY_STATUS.get(view.state, "RUNNING"),
        start_ms=_ms(view.events[0].time),
        end_ms=end_ms,
        tags=_tags(tags),
        params=_params(asked),
        points=tuple(_summary_points(view.summary, end_ms)) if end_ms is not None else (),
    )


def node_record(view: StudyView, node: Node) -> RunRecord:
    """A node's run: tags to filter by, the knobs of its last stage, its scores (metrics.jsonl aside)."""
    proposal, stage = node.proposal, node.proposal.recipe.stages[-1]
    times = _node_times(view)[node.id]
    tags = {
        **_identity(view, node.id),
        "autotrainer.parent": node.parent or "",
        "autotrainer.parents": ",".join(proposal.parents),
        "autotrainer.depth": str(view.tree.depth(node.id)),
        "autotrainer.path": "/".join(step.id for step in view.tree.lineage(node.id)),
        "autotrainer.edge": str(proposal.edge),
        "autotrainer.purpose": str(proposal.purpose),
        "autotrainer.state": str(node.state),
        "autotrainer.verdict": str(node.verdict),
        "autotrainer.validity": str(node.validity),
        "autotrainer.skill": ",".join(proposal.skills),
        "autotrainer.findings": ",".join(dict.fromkeys(finding.kind for finding in node.findings)),
        "autotrainer.start": facts.trained_from(node),
        "autotrainer.cost_device_s": f"{sum(view.node_cost(node.id).values()):.1f}",
        ATTEMPT: str(node.attempt),
        NOTE: node_note(view, node),
    }
    params = {
        **stage.knobs,
        "algorithm": stage.algorithm,
        "seed": proposal.recipe.seed,
        "steps": proposal.recipe.steps,
    }
    if proposal.edge is Edge.BASE:
        params = {"seed": proposal.recipe.seed}
    return RunRecord(
        name=run_name(view, node),
        status=_STATUS[node.state],
        start_ms=_ms(times[0]),
        end_ms=_ms(times[1]) if node.state.is_terminal else None,
        tags=_tags(tags),
        params=_params(params),
        points=tuple(_score_points(view, node)),
        parent=tree_parent(view, node),
    )


def run_name(view: StudyView, node: Node) -> str:
    """The id first, since deep rows of MLflow's table show little else, then what is new."""
    star = " \u2605" if node.verdict is Verdict.PROMOTED else ""
    return text.cut(f"{node.id}{star} {facts.title(view, node)}", 120)


def tree_parent(view: StudyView, node: Node) -> str | None:
    """The node under whose run this one's hangs: its parent; None, the study, for children of the base."""
    return node.parent if node.parent and view.tree[node.parent].parent is not None else None


def metric_points(row: Mapping[str, Any], started_ms: int) -> Iterator[Point]:
    """The numbers of one row of metrics.jsonl, under TRL's names; NaN and infinity stay what they are."""
    time = row.get("time")
    time_ms = _ms(time) if isinstance(time, int | float) and 0 < time < 1e11 else started_ms + row["step"]
    for key, value in row.items():
        if key in _NOT_METRICS or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        name = metric_name(key)
        if name:
            yield Point(name, _float(value), time_ms, row["step"])


def metric_name(key: str) -> str:
    """The key as MLflow takes it: strange characters as `_`, no empty or dotted part of a path."""
    parts = [part for part in _NOT_IN_KEY.sub("_", key).split("/") if part.strip(" .")]
    return "/".join(part.strip() for part in parts)[:_KEY_LIMIT]


def study_note(view: StudyView) -> str:
    """The description of the study's run, as Markdown."""
    rows = [
        f"| {_md(arm.name)} | {len(arm.nodes)} | "
        + " | ".join(
            text.percent(figure[0]) if (figure := arm.figures[split]) else "" for split in facts.SPLITS
        )
        + " |"
        for arm in facts.comparison(view)
    ]
    table = (
        ["", "| | runs | dev | holdout | test |", "| --- | --- | --- | --- | --- |", *rows] if rows else []
    )
    path = " \u2192 ".join(node.id for node in facts.winner_path(view))
    simulated = ["**Simulated: no model was trained.**", ""] if view.simulated else []
    lines = [*simulated, f"**{_md(facts.headline(view))}**", "", _md(facts.second_line(view)), *table]
    if path:
        lines += [
            "",
            f"Path of the finalist: {path}. The tree is in the artifacts: `tree.html`, `report.html`.",
        ]
    return "\n".join(lines)


def node_note(view: StudyView, node: Node) -> str:
    """The description of a node's run, as Markdown: why it exists, what changed, how it ended."""
    changed = [_md(text.change(row)) for row in view.changes(node)]
    ended = f"{node.state}: {_md(facts.reason(node))}" if facts.reason(node) else str(node.state)
    parts = [
        f"**Why:** {_md(node.proposal.hypothesis)}",
        f"**From** {_md(facts.trained_from(node))}, {node.proposal.edge}"
        + (f": {', '.join(changed)}" if changed else ""),
        f"**Ended** {ended}" if node.state.is_terminal else f"**Now** {node.state}",
        *(
            f"**Finding:** {_md(found.kind)} from step {found.onset_step}: {_md(found.message)}"
            for found in node.findings
        ),
        f"**Verdict** {node.verdict}: {_md(node.verdict_reason)}" if node.verdict_reason else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _identity(view: StudyView, node: str) -> dict[str, str]:
    return {STUDY: view.config.id, NODE: node, CREATED: f"{view.events[0].time:.3f}"}


def _score_points(view: StudyView, node: Node) -> Iterator[Point]:
    for event in view.events:
        if event.kind == "node_scored" and event.data["node"] == node.id:
            split, score = event.data["split"], event.data["score"]
            names = {f"score/{split}": "mean", f"score/{split}_low": "low", f"score/{split}_high": "high"}
            for name, key in names.items():
                yield Point(metric_name(name), _float(score[key]), _ms(event.time), int(event.data["step"]))


def _summary_points(summary: Mapping[str, Any], time_ms: int) -> Iterator[Point]:
    """The numbers of a summary, nested ones as `gain_over_base/mean`."""
    for key, value in summary.items():
        inner = value if isinstance(value, Mapping) else {"": value}
        for name, number in inner.items():
            if isinstance(number, int | float) and not isinstance(number, bool):
                yield Point(metric_name(f"{key}/{name}"), _float(number), time_ms, 0)


def _node_times(view: StudyView) -> dict[str, tuple[float, float]]:
    """When every node was proposed and when it last changed its state."""
    times: dict[str, tuple[float, float]] = {}
    for event in view.events:
        node = event.data.get("node")
        if event.kind == "node_proposed":
            times[event.data["node"]] = (event.time, event.time)
        elif node in times and event.kind == "node_state":
            times[node] = (times[node][0], event.time)
    return times


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {key: text.cut(value, _TAG_LIMIT) for key, value in tags.items()}


def _params(params: Mapping[str, Any]) -> dict[str, str]:
    return {key: text.cut(text.clean(value), _PARAM_LIMIT) for key, value in params.items()}


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _md(words: str) -> str:
    """The words as plain Markdown text."""
    return re.sub(r"([\\`*_{}\[\]<>#|!])", r"\\\1", text.clean(words))
