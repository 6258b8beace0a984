"""What the report says in words: what was asked and planned, the winner's path, limits, commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotrainer.files import decode_number
from autotrainer.study.view import StudyView
from autotrainer.tracking.links import mlflow_link
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState, Validity
from autotrainer.ui import facts, text


@dataclass(frozen=True, slots=True)
class PathStep:
    """One node of the winner's path; `gain` is its dev score less that of the node before."""

    node: Node
    changes: Sequence[Mapping[str, Any]]
    gain: float | None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One line of the table of all nodes."""

    node: Node
    what: str
    cost_s: float


def asked(view: StudyView) -> list[tuple[str, str]]:
    """What the user asked for, as pairs."""
    config = view.config
    overrides = ", ".join(
        f"{text.knob_name(key)} = {text.number(value)}" for key, value in config.recipe.items()
    )
    rows = [
        ("task", config.task),
        ("model", config.model),
        ("budget", config.budget_text),
        ("seed", str(config.seed)),
        ("planner", config.planner),
        ("policy", config.policy),
        ("recipe overrides", overrides or "none"),
    ]
    return [(name, text.clean(value)) for name, value in rows]


def planned(view: StudyView) -> list[str]:
    """What the budget bought, as sentences; the smallest provable gain first."""
    plan = view.plan
    if plan is None:
        return ["The study is not prepared yet."]
    gain = float(decode_number(plan.provable_gain))
    proof = (
        f"The smallest gain over careful that this budget can prove is about {100 * gain:.1f} points "
        f"({text.plural(plan.confirm_seeds, 'fresh seed')} a side)."
        if gain < 1
        else "This budget buys too few seeds to prove any gain over careful."
    )
    sentences = [
        proof,
        f"Mode {plan.mode}: the budget buys {plan.full_runs:.1f} runs of {plan.steps} steps, "
        f"{plan.slots} at a time.",
    ]
    if plan.mode == "tree":
        sentences.append(
            f"{text.plural(plan.careful_seeds, 'careful seed')}, {text.plural(plan.drafts, 'draft')}, at "
            f"most {plan.max_nodes} nodes on paths of up to {plan.max_depth}; "
            f"{text.seconds(plan.confirm_reserve_s)} of device time kept back to confirm "
            f"{text.plural(plan.finalists, 'finalist')}."
        )
    cost = plan.cost
    sentences.append(
        f"Measured before the clock started: a job starts in {cost.startup_s:.1f} s, does a step in "
        f"{cost.step_s:.2f} s, an evaluation takes {cost.eval_s:.1f} s."
    )
    return sentences


def path_steps(view: StudyView) -> list[PathStep]:
    """The finalist's path from the base, with what each node changed."""
    path = facts.winner_path(view)
    steps = []
    for place, node in enumerate(path):
        score, before = node.score("dev"), path[place - 1].score("dev") if place else None
        gain = score - before if score is not None and before is not None else None
        steps.append(PathStep(node, view.changes(node), gain))
    return steps


def without_gain(view: StudyView) -> list[NodeRow]:
    """Nodes of the search that ended valid and no better on dev than what they came from."""
    rows = []
    for row in node_rows(view):
        node = row.node
        if node.proposal.purpose is not Purpose.SEARCH or node.state is not NodeState.COMPLETED:
            continue
        parent = view.tree[node.parent].score("dev") if node.parent else None
        score = node.score("dev")
        if score is not None and parent is not None and score <= parent:
            rows.append(row)
    return rows


def node_rows(view: StudyView) -> list[NodeRow]:
    """All nodes, in the order of their proposal."""
    return [
        NodeRow(node, facts.main_change(view, node), sum(view.node_cost(node.id).values()))
        for node in view.tree.nodes
    ]


def commands(view: StudyView) -> list[tuple[str, str]]:
    """Commands that repeat or inspect the study, each with what it does; for the folder that has `runs/`."""
    study = view.config.id
    last = facts.finalist(view)
    rows = [
        (f"autotrainer run --config runs/{study}/study.toml --id {study}-again", "the whole study again"),
        (f"autotrainer show {study}", "tree and table in the terminal"),
        (f"autotrainer ui {study}", "the study in the browser, with curves and rollouts"),
        (f"autotrainer export {study} --out DIR", "the model, and a plain TRL script that trains it again"),
    ]
    link = mlflow_link(view.paths)
    if link is not None:
        rows.append(
            (link.command or link.url, f"the study in MLflow{f', at {link.url}' if link.command else ''}")
        )
    if last is not None and last.attempt:
        rows += [
            (
                f"autotrainer run-node {study} {last.id}",
                f"repeats {last.id} alone and compares it step by step",
            ),
            (f"autotrainer show {study} {last.id}", f"the story of {last.id}"),
        ]
        if last.harness:
            rows.append(
                (
                    f"git --git-dir runs/{study}/harness.git show {last.harness[:12]}",
                    f"the code that {last.id} ran",
                )
            )
    return rows


def limits(view: StudyView) -> list[str]:
    """What the figures do not say."""
    lines = [
        "Dev scores of the search rank nodes; they are a maximum over many tries and claim nothing. Only "
        "fresh seeds from the base model do.",
    ]
    plan = view.plan
    if plan is not None and plan.confirm_seeds:
        lines.append(
            f"The confirmation has {text.plural(plan.confirm_seeds, 'seed')} an arm: a real gain below the "
            "smallest provable one will often look like none."
        )
    if view.state != "finished":
        lines.append("The study is not finished: test has not been scored, and nothing is claimed.")
    if view.config.model == "tiny":
        lines.append(
            "The shipped tiny model shows how the search works. Effect sizes, learning rates and lengths "
            "seen on it do not carry over to models of useful size."
        )
    if view.simulated:
        lines.append("The runs are simulated: no model was trained.")
    invalid = [node.id for node in view.tree.nodes if node.validity is Validity.INVALID]
    if invalid:
        lines.append(f"Invalid and left out of every comparison: {', '.join(invalid)}.")
    lines.append(f"One task ({text.clean(view.config.task)}), one base model, one set of data splits.")
    return lines
