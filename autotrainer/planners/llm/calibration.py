"""Calibration: how often the metric movements that decisions predicted came true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from autotrainer.contract.metrics import Metrics
from autotrainer.tree.node import Node
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

FLAT_SHARE = 0.05
"""A movement smaller than this share of the larger value counts as flat."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """`right` of `checked` predictions came true."""

    checked: int
    right: int

    @property
    def text(self) -> str:
        """The figure for a person; empty where nothing was checked."""
        if not self.checked:
            return ""
        return f"{self.right} of {self.checked} predicted metric movements came true"


def calibration(tree: Tree, metrics: Callable[[str], Metrics], planner: str) -> Calibration:
    """Compare what a planner's ended nodes predicted with what their metrics did against their parents."""
    checked = right = 0
    for node in tree.nodes:
        if node.proposal.planner != planner or node.state not in (NodeState.COMPLETED, NodeState.PRUNED):
            continue
        for prediction in node.proposal.predictions:
            moved = movement(tree, metrics, node, prediction.metric)
            if moved is not None:
                checked += 1
                right += moved == prediction.direction
    return Calibration(checked, right)


def movement(tree: Tree, metrics: Callable[[str], Metrics], node: Node, metric: str) -> str | None:
    """up, down or flat: the last quarter of the node's values against its parent's; None where unknown."""
    if node.parent is None:
        return None
    before = _level(tree, metrics, tree[node.parent], metric)
    after = _level(tree, metrics, node, metric)
    if before is None or after is None:
        return None
    if abs(after - before) <= FLAT_SHARE * max(abs(after), abs(before)):
        return "flat"
    return "up" if after > before else "down"


def _level(tree: Tree, metrics: Callable[[str], Metrics], node: Node, metric: str) -> float | None:
    if metric == "dev":
        return node.score("dev")
    values = metrics(node.id).values(metric)
    return fmean(values[-max(1, len(values) // 4) :]) if values else None
