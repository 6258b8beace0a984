"""Rows of evidence from a finished study: each skill's node against its controls."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from statistics import fmean

from autotrainer.library.store import SEED_SD, EvidenceRow
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Edge, Purpose
from autotrainer.tree.state import NodeState, Validity
from autotrainer.tree.tree import Tree

LOST = -0.05
"""The effect of a trial whose node was stopped or failed: it is no better than this."""


def trials(
    tree: Tree, *, study: str, task: str, band: str, weights: str, time: float
) -> Iterator[EvidenceRow]:
    """The rows of a tree, one a node, skill and finding.

    The effect is the node's gain on dev over its start, less the mean gain of the controls: nodes of the same
    length that started as deep and used no skill. Without a control the gain itself would count the training,
    so such a node gives no row. The interval covers both means and the spread over seeds.
    """
    for node in tree.with_purpose(Purpose.SEARCH):
        if not node.proposal.skills or node.validity is not Validity.VALID:
            continue
        measured = _effect(tree, node)
        if measured is None:
            continue
        effect, spread = measured
        for skill in node.proposal.skills:
            for finding in node.proposal.treats or ("healthy",):
                yield EvidenceRow(
                    skill=skill,
                    task=task,
                    band=band,
                    weights=weights,
                    finding=finding,
                    effect=effect,
                    low=effect - 1.96 * spread,
                    high=effect + 1.96 * spread,
                    seeds=1,
                    device_s=node.outcome.device_s if node.outcome else 0.0,
                    study=study,
                    node=node.id,
                    time=time,
                )


def _effect(tree: Tree, node: Node) -> tuple[float, float] | None:
    if node.state in (NodeState.PRUNED, NodeState.FAILED):
        return LOST, SEED_SD
    gain = _gain(tree, node)
    if gain is None or node.state is not NodeState.COMPLETED:
        return None
    controls = [
        other_gain
        for other in tree.with_purpose(Purpose.SEARCH)
        if not other.proposal.skills
        and tree.depth(other.id) == tree.depth(node.id)
        and other.proposal.recipe.steps == node.proposal.recipe.steps
        and (other_gain := _gain(tree, other)) is not None
    ]
    if not controls:
        return None
    items = [score for name in (node.id,) if (score := tree[name].scores.get("dev"))]
    item_sd = fmean((score.high - score.low) / 3.92 for score in items)
    spread = sqrt(item_sd**2 * 2 + SEED_SD**2 * (1 + 1 / len(controls)))
    return gain - fmean(controls), spread


def _gain(tree: Tree, node: Node) -> float | None:
    """Gain on dev over the nearest ancestor that was scored and trained."""
    after = node.score("dev")
    if after is None or node.parent is None:
        return None
    for ancestor in reversed(tree.lineage(node.id)[:-1]):
        before = ancestor.score("dev")
        if before is not None and ancestor.proposal.edge is not Edge.BASE:
            return after - before
    return None
