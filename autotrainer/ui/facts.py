"""What the renderers have in common: who won, along which path, what was treated, where device time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from autotrainer.study.view import StudyView
from autotrainer.tree.finding import Finding, Severity
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState, Validity
from autotrainer.ui import text


@dataclass(frozen=True, slots=True)
class Treatment:
    """A pathology that was met: where, what was done about it, and what came of that."""

    node: Node
    finding: Finding
    treated_by: tuple[Node, ...]
    outcome: str


@dataclass(frozen=True, slots=True)
class Arm:
    """A row of the comparison: runs of one kind, with mean, low and high by split (None where not scored).

    Of one run low and high are the 95 % interval over items; of several the lowest and highest seed.
    """

    name: str
    nodes: tuple[Node, ...]
    figures: dict[str, tuple[float, float, float] | None]


@dataclass(frozen=True, slots=True)
class TimeRow:
    """Device-seconds of the nodes run for one purpose, or of something else that was charged."""

    name: str
    nodes: int
    train_s: float
    eval_s: float

    @property
    def total_s(self) -> float:
        """Training and evaluation together."""
        return self.train_s + self.eval_s


PURPOSES = {
    Purpose.BASE: "base model",
    Purpose.CAREFUL: "careful seeds",
    Purpose.SEARCH: "search",
    Purpose.CONFIRM: "confirmation seeds",
    Purpose.CONTROL: "control seeds",
}
SPLITS = ("dev", "holdout", "test")


def finalist(view: StudyView) -> Node | None:
    """The node whose path the study stands for: the confirmed, else the promoted, else the best by dev."""
    tree = view.tree
    promoted = tree.promoted()
    if promoted is not None:
        parents = promoted.proposal.parents
        is_confirmation = promoted.proposal.purpose is Purpose.CONFIRM and len(parents) > 1
        return tree[parents[1]] if is_confirmation else promoted
    named = view.summary.get("finalist")
    return tree[named] if isinstance(named, str) and named in tree else tree.best()


def winner_path(view: StudyView) -> tuple[Node, ...]:
    """The finalist and its ancestors, base first; empty where nothing was scored."""
    last = finalist(view)
    return view.tree.lineage(last.id) if last is not None else ()


def trained_from(node: Node) -> str:
    """Where the weights came from: `the base model`, `n005 step 60`."""
    start = node.proposal.start
    return f"{start.node} step {start.step}" if start.node else "the base model"


def main_change(view: StudyView, node: Node) -> str:
    """What is new about a node, in a few words."""
    purpose, seed = node.proposal.purpose, node.proposal.recipe.seed
    if purpose is Purpose.BASE:
        return "not trained"
    if purpose is Purpose.CAREFUL:
        return f"careful recipe, seed {seed}"
    if purpose is Purpose.CONTROL:
        return f"careful, as long, seed {seed}"
    if purpose is Purpose.CONFIRM:
        return f"path of {node.proposal.parents[-1]}, seed {seed}"
    rows = view.changes(node)
    return text.changes(rows, most=1) if rows else f"same recipe, seed {seed}"


def title(view: StudyView, node: Node) -> str:
    """What a node is, in one line without its id: `larger-groups: num_generations 8 \u2192 16`."""
    proposal = node.proposal
    if proposal.purpose is Purpose.BASE:
        return "base model"
    what = main_change(view, node)
    if proposal.purpose is Purpose.SEARCH:
        what = f"{', '.join(proposal.skills) or proposal.edge}: {what}"
    return text.clean(what)


def reason(node: Node) -> str:
    """Why the node ended as it did; empty for one that completed as planned."""
    if node.validity is Validity.INVALID:
        return node.validity_reason
    return "" if node.state is NodeState.COMPLETED else node.kill_reason or node.reason


def gain_over_careful(view: StudyView) -> dict[str, Any] | None:
    """The confirmed gain over equally long careful runs, where it was tested."""
    return view.summary.get("gain_over_careful") or view.summary.get("confirmed_gain") or None


def headline(view: StudyView) -> str:
    """Whether search paid, in one sentence."""
    if view.state != "finished":
        return f"Not judged yet: the study is {view.state} (phase {view.phase})."
    gain, summary = gain_over_careful(view), view.summary
    if summary.get("arm") == "search" and gain is not None:
        p = f", {text.p_value(gain['p'])}" if gain.get("p") is not None else ""
        seeds = f", {text.plural(gain['n'], 'fresh seed')} each" if gain.get("n") else " on fresh seeds"
        return (
            f"Search paid: {text.points(gain.get('mean'))} points on dev over equally long careful runs"
            f"{seeds} (95 % interval {text.interval(gain)}{p})."
        )
    said = text.clean(next(iter(summary.get("reasons", ())), "no gain of the search is claimed"))
    if view.tree.with_purpose(Purpose.SEARCH) and not said.startswith("search did not pay"):
        said = f"search did not pay: {said}"
    return f"{said[:1].upper()}{said[1:]}".rstrip(". ") + "."


def second_line(view: StudyView) -> str:
    """The gain over the base model, and what the search had seen before the confirmation; may be empty."""
    gain, summary, parts = view.summary.get("gain_over_base"), view.summary, []
    if gain:
        who = "what is promoted" if summary.get("winner") else "the better arm, which is not promoted,"
        seeds = f"; {text.plural(gain['n'], 'seed')}" if gain.get("n", 0) > 1 else ""
        parts.append(
            f"On test {who} is {text.points(gain.get('mean'))} points from the base model "
            f"(95 % interval {text.interval(gain)}{seeds})."
        )
    if summary.get("search_time_gain") is not None:
        seen = text.points(summary["search_time_gain"])
        parts.append(
            f"During the search, as the best of many tries, the gain over careful looked like {seen}."
        )
    return text.clean(" ".join(parts))


def treatments(view: StudyView) -> list[Treatment]:
    """Every pathology met, in the order of nodes; findings that only inform are left out."""
    return [
        Treatment(node, finding, by, _came_of_it(finding, by))
        for node in view.tree.nodes
        for finding in node.findings
        if finding.severity is not Severity.INFO
        for by in [_treating(view, node, finding)]
    ]


def _treating(view: StudyView, node: Node, finding: Finding) -> tuple[Node, ...]:
    return tuple(
        other
        for other in view.tree.with_purpose(Purpose.SEARCH)
        if finding.kind in other.proposal.treats
        and node.id in (other.proposal.finding_node or other.parent, *other.proposal.parents)
    )


def _came_of_it(finding: Finding, by: Sequence[Node]) -> str:
    if not by:
        return "not treated"
    ended = [node for node in by if node.state.is_terminal]
    if not ended:
        return "being treated"
    cured = [
        node.id
        for node in ended
        if node.state is NodeState.COMPLETED and finding.kind not in {found.kind for found in node.findings}
    ]
    return f"gone in {', '.join(cured)}" if cured else "still there"


def steps_before(view: StudyView, node: Node) -> int:
    """Optimiser steps from the base model to where the node starts."""
    start = node.proposal.start
    return (
        sum(stage.steps for stage in view.tree.path_stages_until(start.node, start.step)) if start.node else 0
    )


def kills(view: StudyView) -> list[Node]:
    """The nodes that a kill rule stopped."""
    return [node for node in view.tree.nodes if node.kill_reason]


def comparison(view: StudyView) -> list[Arm]:
    """Base, careful, control, the finalist as found and confirmed; arms without a score are left out."""
    rows: list[tuple[str, Sequence[Node]]] = [
        ("Base model", view.tree.with_purpose(Purpose.BASE)),
        ("Careful recipe", view.tree.with_purpose(Purpose.CAREFUL)),
        ("Careful recipe, as long as the finalist", view.tree.with_purpose(Purpose.CONTROL)),
    ]
    confirmed: dict[str, list[Node]] = {}
    for node in view.tree.with_purpose(Purpose.CONFIRM):
        confirmed.setdefault(node.proposal.parents[-1], []).append(node)
    for name, replicates in confirmed.items():
        rows.append((f"Finalist {name} as found", [view.tree[name]]))
        rows.append((f"Finalist {name} on fresh seeds", replicates))
    best = view.tree.best()
    if not confirmed and best is not None and best.proposal.purpose is Purpose.SEARCH:
        rows.append((f"Best of the search, {best.id}, as found", [best]))
    arms = []
    for name, nodes in rows:
        scored = tuple(node for node in nodes if node.scores and node.validity is Validity.VALID)
        if scored:
            arms.append(Arm(name, scored, {split: _figure(scored, split) for split in SPLITS}))
    return arms


def _figure(nodes: Sequence[Node], split: str) -> tuple[float, float, float] | None:
    scores = [node.scores[split] for node in nodes if split in node.scores]
    if not scores:
        return None
    if len(scores) == 1:
        return scores[0].mean, scores[0].low, scores[0].high
    means = [score.mean for score in scores]
    return fmean(means), min(means), max(means)


def device_time(view: StudyView) -> list[TimeRow]:
    """Where the device-seconds went, by purpose, then other charges; together what the ledger used."""
    rows = []
    for purpose, name in PURPOSES.items():
        nodes = view.tree.with_purpose(purpose)
        costs = [view.node_cost(node.id) for node in nodes]
        if nodes:
            rows.append(
                TimeRow(
                    name,
                    len(nodes),
                    sum(cost["train_device_s"] for cost in costs),
                    sum(cost["eval_device_s"] for cost in costs),
                )
            )
    charged: dict[str, float] = {}
    for event in view.events:
        if event.kind == "charge":
            what = text.clean(event.data["what"])
            charged[what] = charged.get(what, 0.0) + float(event.data["device_s"])
    return rows + [TimeRow(what, 0, 0.0, device_s) for what, device_s in charged.items()]
