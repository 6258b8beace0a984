"""The terminal's renderables: run tree, table, live view, a node's story. Nothing is said by colour alone."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as RichTree

from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState, Validity, Verdict
from autotrainer.ui import facts, text
from autotrainer.ui.live import live_renderable
from autotrainer.ui.story import node_story
from autotrainer.ui.tree_layout import SEARCHED, confirmation_rows

__all__ = ["live_renderable", "node_story", "table_renderable", "tree_renderable"]

STYLES = {
    NodeState.RUNNING: "blue",
    NodeState.EVALUATING: "blue",
    NodeState.PRUNED: "yellow",
    NodeState.CANCELLED: "dim",
    NodeState.FAILED: "red",
    NodeState.CRASHED: "red",
}


def tree_renderable(view: StudyView) -> RenderableType:
    """The run tree, a line a node with its change, dev score and interval; fresh seeds in own branches."""
    nodes = view.tree.nodes
    if not nodes:
        return Text("no nodes yet", style="dim")
    path = {node.id for node in facts.winner_path(view)} if view.tree.promoted() else set()
    root = RichTree(_label(view, nodes[0], path), guide_style="dim")
    branches = {nodes[0].id: root}
    for node in nodes[1:]:
        if node.proposal.purpose in SEARCHED:
            branches[node.id] = branches[node.parent or nodes[0].id].add(_label(view, node, path))
    for caption, arm in confirmation_rows(view.tree):
        branch = root.add(Text(f"fresh seeds: {text.clean(caption)}", style="italic"))
        for node in arm:
            branch.add(_label(view, node, path))
    return root


def table_renderable(view: StudyView) -> RenderableType:
    """Base, careful, the finalist as found and on fresh seeds, by split; then whether search paid."""
    arms = facts.comparison(view)
    if not arms:
        return Text("nothing is scored yet", style="dim")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("runs", justify="right")
    for split in facts.SPLITS:
        table.add_column(split, justify="right")
    for arm in arms:
        cells = [
            Text(text.NONE, style="dim") if (figure := arm.figures[split]) is None else _figure(figure)
            for split in facts.SPLITS
        ]
        table.add_row(Text(arm.name), str(len(arm.nodes)), *cells)
    simulated = [Text("Simulated: no model was trained.", style="bold yellow")] if view.simulated else []
    return Group("", table, "", *simulated, Text(facts.headline(view), style="bold"))


def _figure(figure: tuple[float, float, float]) -> Text:
    mean, low, high = figure
    words = Text(text.percent(mean), style="bold")
    return words.append(f"\n{100 * low:.1f} to {100 * high:.1f}", style="dim not bold")


def _label(view: StudyView, node: Node, path: set[str]) -> Text:
    proposal = node.proposal
    label = Text(overflow="fold")
    label.append(f"{node.id}  ", style="bold")
    what, _, change = facts.title(view, node).partition(": ")
    label.append(f"{what}  ", style="cyan" if proposal.skills and change else "")
    label.append(f"{change}  " if change else "")
    score = node.scores.get("dev")
    if score is not None:
        half = 100 * (score.high - score.low) / 2
        label.append(f"{text.percent(score.mean)} ", style="bold green").append(
            f"\u00b1{half:.1f}  ", style="dim"
        )
    if node.state is not NodeState.COMPLETED:
        label.append(f"{node.state}  ", style=STYLES.get(node.state, ""))
        if node.state.is_terminal:
            label.append(text.cut(text.clean(facts.reason(node)), 70) + " ", style="dim")
    if node.validity is Validity.INVALID:
        label.append(f"INVALID: {text.clean(node.validity_reason)} ", style="bold red")
    if node.verdict is Verdict.PROMOTED:
        label.append("\u2605 promoted ", style="bold magenta")
    elif node.id in path and proposal.purpose is Purpose.SEARCH:
        label.append("\u2190 winner's path  ", style="magenta")
    label.rstrip()
    return label
