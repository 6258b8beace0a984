"""What the page asks for, as plain JSON values."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from autotrainer.errors import WorkspaceError
from autotrainer.files import dumps
from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState, Validity
from autotrainer.ui import facts, text
from autotrainer.ui.decisions import decisions
from autotrainer.ui.tree_layout import confirmation_rows, place_tree
from autotrainer.ui.web.rollouts import rollout_steps
from autotrainer.workspace import versions

CURVES = (
    ("reward", "reward"),
    ("probe/accuracy", "probe accuracy"),
    ("entropy", "entropy"),
    ("kl_start", "KL from the start"),
    ("completions/mean_length", "completion length"),
    ("groups/mixed", "share of mixed groups"),
    ("grad_norm", "gradient norm"),
    ("learning_rate", "learning rate"),
)
_POINTS = 300
_DECISIONS = 300
_TRACE = 20_000


def study_payload(view: StudyView) -> dict[str, Any]:
    """Everything about the study but the details of its nodes."""
    ledger, winner = view.ledger, facts.finalist(view)
    promoted = view.tree.promoted()
    return {
        "id": text.clean(view.config.id),
        "task": text.clean(view.config.task),
        "model": text.clean(view.config.model),
        "state": view.state,
        "phase": view.phase,
        "simulated": view.simulated,
        "headline": facts.headline(view),
        "second": facts.second_line(view),
        "seq": len(view.events),
        "budget": {
            "text": text.clean(view.config.budget_text),
            "granted": ledger.granted,
            "used": ledger.used,
            "reserved": ledger.reserved,
            "left_s": max(0.0, ledger.deadline - time.time()) if ledger.deadline else None,
            "rows": [
                {"name": row.name, "train_s": row.train_s, "eval_s": row.eval_s, "total_s": row.total_s}
                for row in facts.device_time(view)
            ],
            "spent": _spent(view),
        },
        "winner": winner.id if winner else None,
        "promoted": promoted.id if promoted else None,
        "path": [node.id for node in facts.winner_path(view)],
        "nodes": _nodes(view),
        "captions": _captions(view),
        "arms": [
            {"name": arm.name, "nodes": [n.id for n in arm.nodes], "figures": arm.figures}
            for arm in facts.comparison(view)
        ],
        "decisions": [_decision(view, item) for item in decisions(view, most=_DECISIONS)][::-1],
        "skills": _skills(view),
    }


def _nodes(view: StudyView) -> list[dict[str, Any]]:
    places = {node: (place.column, place.row) for node, place in place_tree(view.tree).items()}
    for row, (_, arm) in zip(_arm_rows(view), confirmation_rows(view.tree), strict=True):
        for column, node in enumerate(arm):
            places[node.id] = (column + 1, row)
    return [_node(view, node, places.get(node.id, (0, 0.0))) for node in view.tree.nodes]


def _arm_rows(view: StudyView) -> list[float]:
    """The rows of the confirmation's arms, below the tree."""
    bottom = 1 + max((place.row for place in place_tree(view.tree).values()), default=-1)
    return [bottom + 0.6 + line for line, _ in enumerate(confirmation_rows(view.tree))]


def _captions(view: StudyView) -> list[tuple[float, str]]:
    arms = confirmation_rows(view.tree)
    return [
        (row, f"fresh seeds: {text.clean(words)}")
        for row, (words, _) in zip(_arm_rows(view), arms, strict=True)
    ]


def _node(view: StudyView, node: Node, place: tuple[int, float]) -> dict[str, Any]:
    proposal, score = node.proposal, node.scores.get("dev")
    valid = node.validity is Validity.VALID
    return {
        "id": node.id,
        "parents": list(proposal.parents),
        "from": proposal.start.node,
        "from_step": proposal.start.step,
        "purpose": str(proposal.purpose),
        "edge": str(proposal.edge),
        "state": str(node.state) if valid else "invalid",
        "active": not node.state.is_terminal,
        "verdict": str(node.verdict),
        "skills": [text.clean(skill) for skill in proposal.skills],
        "title": text.cut(facts.title(view, node), 90),
        "dev": score.mean if score and valid else None,
        "low": score.low if score else None,
        "high": score.high if score else None,
        "findings": [text.clean(found.kind) for found in node.findings],
        "reason": text.clean(facts.reason(node)),
        "x": place[0],
        "y": place[1],
    }


def _spent(view: StudyView) -> list[list[float]]:
    """Device-seconds that were charged so far, by seconds since the clock started."""
    began, total, rows = None, 0.0, []
    for event in view.events:
        if event.kind == "study_started":
            began = event.time
        amount = (
            event.data.get("device_s") if event.kind in ("job_settled", "node_scored", "charge") else None
        )
        if began is not None and amount is not None:
            total += float(amount)
            rows.append([round(event.time - began, 1), round(total, 1)])
    return _thinned(rows)


def _decision(view: StudyView, item: Any) -> dict[str, Any]:
    return {"t": item.time - view.events[0].time, "node": item.node, "words": item.words}


def _skills(view: StudyView) -> list[dict[str, Any]]:
    names = sorted({skill for node in view.tree.nodes for skill in node.proposal.skills})
    rows = []
    for name in names:
        tried = [
            node
            for node in view.tree.nodes
            if name in node.proposal.skills and node.proposal.purpose is Purpose.SEARCH
        ]
        gains = [gain for node in tried if (gain := _gain(view, node)) is not None]
        rows.append(
            {
                "id": text.clean(name),
                "nodes": [node.id for node in tried],
                "treats": sorted({text.clean(kind) for node in tried for kind in node.proposal.treats}),
                "n": len(gains),
                "gain": fmean(gains) if gains else None,
                "lost": [node.id for node in tried if node.state in (NodeState.FAILED, NodeState.PRUNED)],
            }
        )
    return rows


def _gain(view: StudyView, node: Node) -> float | None:
    """Dev against the nearest ancestor that has a score: a repair's parent may have none."""
    after = node.score("dev")
    ancestors = (step.score("dev") for step in reversed(view.tree.lineage(node.id)[:-1]))
    before = next((score for score in ancestors if score is not None), None)
    return after - before if after is not None and before is not None else None


def node_payload(view: StudyView, node_id: str) -> dict[str, Any]:
    """A node's story."""
    node = view.tree[node_id]
    proposal, metrics, cost = node.proposal, view.metrics(node_id), view.node_cost(node_id)
    folder = view.paths.job(node.job_id) / "rollouts"
    return {
        **_node(view, node, (0, 0.0)),
        "hypothesis": text.clean(proposal.hypothesis),
        "planner": text.clean(proposal.planner),
        "treats": [text.clean(kind) for kind in proposal.treats],
        "finding_node": proposal.finding_node,
        "start": facts.trained_from(node),
        "seed": proposal.recipe.seed,
        "changes": [text.change(row) for row in view.changes(node)],
        "predictions": [
            {"metric": text.clean(p.metric), "direction": text.clean(p.direction), "why": text.clean(p.why)}
            for p in proposal.predictions
        ],
        "came_of_it": _came_of_it(view, node),
        "findings": [found.to_json() for found in node.findings],
        "scores": [score.summary() for score in node.scores.values()],
        "steps": metrics.last_step,
        "steps_planned": proposal.recipe.steps,
        "before": facts.steps_before(view, node),
        "curves": [
            {"name": name, "points": _thinned([[step, value] for step, value in metrics.series(key)])}
            for key, name in CURVES
            if metrics.values(key)
        ],
        "lineage": [step.id for step in view.tree.lineage(node_id)],
        "children": [child.id for child in view.tree.children(node_id)],
        "happened": [_decision(view, item) for item in decisions(view, node=node_id)],
        "train_s": cost["train_device_s"],
        "eval_s": cost["eval_device_s"],
        "recipe": recipe_rows(node),
        "patch": proposal.patch,
        "traces": _traces(view, node_id),
        "harness_diff": harness_diff(view, node),
        "rollout_steps": rollout_steps(folder) if node.attempt and folder.is_dir() else [],
    }


def _traces(view: StudyView, node_id: str) -> list[dict[str, str]]:
    """What a language model was asked to decide about the node, and its answer as it was."""
    return [
        {
            "decision": text.clean(event.data["decision"]),
            "outcome": text.clean(event.data["outcome"]),
            "reason": text.clean(event.data["reason"]),
            "model": text.clean(event.data.get("model") or ""),
            "answer": dumps(event.data.get("answer"), indent=1)[:_TRACE],
            "rejections": "\n".join(str(words) for words in event.data.get("rejections") or ())[:_TRACE],
        }
        for event in view.events
        if event.kind == "llm_decision" and event.data.get("node") == node_id
    ]


def _came_of_it(view: StudyView, node: Node) -> str:
    score = node.score("dev")
    if not node.state.is_terminal:
        return f"still {node.state}"
    if score is None:
        return text.clean(f"{node.state}: {facts.reason(node)}")
    parent = view.tree[node.parent].score("dev") if node.parent else None
    against = f", {text.points(score - parent)} points from {node.parent}" if parent is not None else ""
    return f"dev {text.percent(score)}{against}"


def recipe_rows(node: Node) -> dict[str, str]:
    """The recipe of the node's own stages as flat rows."""
    rows = {}
    for place, stage in enumerate(node.proposal.recipe.stages, 1):
        head = f"stage {place} " if len(node.proposal.recipe.stages) > 1 else ""
        rows[f"{head}algorithm"] = text.clean(stage.algorithm)
        rows[f"{head}steps"] = str(stage.steps)
        rows |= {f"{head}{text.clean(key)}": text.number(value) for key, value in stage.knobs.items()}
        for hook in stage.hooks:
            rows[f"{head}hook {text.clean(hook.ref)}"] = text.clean(dict(hook.params))
        for reward in stage.rewards:
            rows[f"{head}reward {text.clean(reward.ref)}"] = f"weight {text.number(reward.weight)}"
    return rows


def harness_diff(view: StudyView, node: Node, other: Node | None = None) -> str:
    """What the node's harness has that its parent's (or another node's) has not; empty where equal."""
    reference = other or (view.tree[node.parent] if node.parent else None)
    while other is None and reference is not None and not reference.harness and reference.parent:
        reference = view.tree[reference.parent]
    if reference is None or not node.harness or not reference.harness or not view.paths.harness_git.is_dir():
        return ""
    if node.harness == reference.harness:
        return ""
    try:
        return versions.diff(view.paths.harness_git, reference.harness, node.harness)
    except WorkspaceError as error:
        return f"the difference cannot be read: {error}"


def compare_payload(view: StudyView, one: str, two: str) -> dict[str, Any]:
    """Two nodes side by side: what differs in the recipe, scores, and the harness's difference."""
    first, second = view.tree[one], view.tree[two]
    mine, theirs = recipe_rows(first), recipe_rows(second)
    mine["starts from"], theirs["starts from"] = facts.trained_from(first), facts.trained_from(second)
    rows = [
        {"key": key, "a": mine.get(key, text.NONE), "b": theirs.get(key, text.NONE)}
        for key in [*mine, *(key for key in theirs if key not in mine)]
        if mine.get(key) != theirs.get(key)
    ]
    return {
        "a": node_payload(view, one),
        "b": node_payload(view, two),
        "recipe": rows,
        "scores": _score_rows(first.scores, second.scores),
        "harness_diff": harness_diff(view, second, first),
    }


def _score_rows(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "split": split,
            "a": one[split].summary() if split in one else None,
            "b": two[split].summary() if split in two else None,
        }
        for split in facts.SPLITS
        if split in one or split in two
    ]


def _thinned(rows: Sequence[list[float]]) -> list[list[float]]:
    """At most a few hundred of the rows, the last one among them."""
    every = max(1, -(-len(rows) // _POINTS))
    kept = list(rows[::every])
    return kept if not rows or kept[-1] == rows[-1] else [*kept, rows[-1]]
