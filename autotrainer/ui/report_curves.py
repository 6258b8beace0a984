"""The report's curves: reward, entropy and probe accuracy of every node that logged any."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from autotrainer.contract.metrics import Metrics
from autotrainer.study.view import StudyView
from autotrainer.tree.finding import Severity
from autotrainer.tree.node import Node
from autotrainer.ui import facts, text
from autotrainer.ui.sparkline import Axes, sparkline

METRICS = (("reward", "reward"), ("entropy", "entropy"), ("probe/accuracy", "probe accuracy"))


@dataclass(frozen=True, slots=True)
class CurveRow:
    """A node with its curves, one a metric; empty markup where nothing was logged."""

    node: Node
    what: str
    steps: int
    curves: tuple[tuple[Markup, str], ...]


def curve_rows(view: StudyView) -> list[CurveRow]:
    """The nodes that logged steps, in the order of their proposal."""
    logged, axes = _logged(view)
    return [
        CurveRow(
            node, facts.main_change(view, node), metrics.last_step, tuple(_cells(view, node, metrics, axes))
        )
        for node, metrics in logged
    ]


def axes_words(view: StudyView) -> list[str]:
    """The heading of each column: the metric and the range that its curves share."""
    _, axes = _logged(view)
    return [f"{name}, {axes[key].low:.2f} to {axes[key].high:.2f}" for key, name in METRICS]


def _logged(view: StudyView) -> tuple[list[tuple[Node, Metrics]], dict[str, Axes]]:
    logged = [(node, metrics) for node in view.tree.nodes if len(metrics := view.metrics(node.id))]
    steps = max((facts.steps_before(view, node) + metrics.last_step for node, metrics in logged), default=1)
    axes = {key: Axes.around((metrics.series(key) for _, metrics in logged), steps) for key, _ in METRICS}
    return logged, axes


def _cells(view: StudyView, node: Node, metrics: Metrics, axes: dict[str, Axes]) -> list[tuple[Markup, str]]:
    before = facts.steps_before(view, node)
    marks = [
        (before + found.onset_step, f"{text.clean(found.kind)} from step {found.onset_step}")
        for found in node.findings
        if found.severity is not Severity.INFO
    ]
    cells = []
    for key, name in METRICS:
        curve = [(before + step, value) for step, value in metrics.series(key)]
        last = f"{curve[-1][1]:.3f}" if curve else ""
        label = f"{node.id} {name}: {curve[0][1]:.3f} to {curve[-1][1]:.3f}" if curve else ""
        cells.append((Markup(sparkline(curve, axes[key], label, marks)), last))
    return cells
