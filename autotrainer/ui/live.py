"""The live view of a running study: time and budget left, running jobs, the last decisions, the tree."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autotrainer.contract.metrics import Metrics
from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.tree.state import NodeState
from autotrainer.ui import facts, text
from autotrainer.ui.decisions import decisions

DECISIONS = 6
_COLUMNS = (("reward", "reward"), ("entropy", "entropy"), ("probe/accuracy", "probe"))
_SMOOTH = 5
"""Last steps over which reward and entropy are averaged: single batches jump."""


def live_renderable(view: StudyView, now: float) -> RenderableType:
    """The study at `now` (epoch seconds); what matters most comes first: a short screen cuts the end."""
    from autotrainer.ui.terminal import tree_renderable

    return Group(
        _header(view, now),
        _budget(view, now),
        "",
        _jobs(view, now),
        "",
        _last(view, now),
        "",
        tree_renderable(view),
    )


def _header(view: StudyView, now: float) -> Text:
    config = view.config
    header = Text(text.clean(config.id), style="bold")
    header.append(
        f"  {text.clean(config.task)}, {text.clean(config.model)}, {text.clean(config.budget_text)}  ",
        style="not bold",
    )
    state = f"phase {view.phase}" if view.state == "running" else view.state
    header.append(state, style="not bold cyan")
    best = view.tree.best()
    if best is not None:
        header.append(f"  best dev {text.percent(best.score('dev'))} ({best.id})", style="not bold green")
    if view.simulated:
        header.append("  SIMULATED", style="bold yellow")
    return header


def _budget(view: StudyView, now: float) -> RenderableType:
    ledger = view.ledger
    if not ledger.granted or ledger.deadline is None:
        return Text("the clock has not started", style="dim")
    left = max(0.0, ledger.deadline - now)
    table = Table.grid(padding=(0, 2))
    table.add_column(width=24)
    table.add_column()
    held = f", {text.seconds(ledger.reserved)} held by jobs" if ledger.reserved else ""
    table.add_row(
        ProgressBar(total=ledger.granted, completed=min(ledger.granted, ledger.used), width=24),
        Text(
            f"{text.seconds(ledger.used)} of {text.seconds(ledger.granted)} device time used{held}; "
            f"{text.seconds(left)} to the deadline"
        ),
    )
    return table


def _jobs(view: StudyView, now: float) -> RenderableType:
    nodes = view.tree.active
    if not nodes:
        return Text("no job runs", style="dim")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("running", "", "step", *(name for _, name in _COLUMNS), "for"):
        table.add_column(name, justify="left" if name in ("running", "") else "right", no_wrap=name != "")
    for node in nodes:
        table.add_row(*_job(view, node, now))
    return table


def _job(view: StudyView, node: Node, now: float) -> list[Text]:
    metrics = view.metrics(node.id)
    step = f"{metrics.last_step}/{node.proposal.recipe.steps}" if node.attempt else ""
    state = "" if node.state is NodeState.RUNNING else f"{node.state} "
    if node.attempt > 1:
        state += f"attempt {node.attempt} "
    words = Text(state, style="yellow").append(facts.title(view, node), style="default")
    return [
        Text(node.id, style="bold"),
        words,
        Text(step),
        *(Text(_value(metrics, key)) for key, _ in _COLUMNS),
        Text(text.seconds(now - _since(view, node))),
    ]


def _value(metrics: Metrics, key: str) -> str:
    values = metrics.values(key)
    if not values:
        return text.NONE
    last = values[-1:] if key.startswith("probe") else values[-_SMOOTH:]
    return f"{sum(last) / len(last):.3f}"


def _since(view: StudyView, node: Node) -> float:
    kinds = ("job_submitted", "node_proposed")
    return next(e.time for e in reversed(view.events) if e.kind in kinds and e.data["node"] == node.id)


def _last(view: StudyView, now: float) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right", no_wrap=True)
    table.add_column()
    for decision in decisions(view, most=DECISIONS):
        table.add_row(f"{text.seconds(now - decision.time)} ago", Text(decision.words))
    return table
