"""What skills did when they were tried: the gain on dev over the parent, from a tree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

from autotrainer.tree.node import Node
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class SkillEvidence:
    """`n` completed nodes of a skill, and the mean gain of their dev score over what they started from."""

    n: int
    mean_gain: float


def evidence(tree: Tree) -> dict[str, SkillEvidence]:
    """By skill id, the skills that completed nodes tell about; a node of several skills counts for each.

    The gain is against the nearest ancestor with a dev score, so that the repair of a killed node is measured
    too.
    """
    gains: dict[str, list[float]] = defaultdict(list)
    for node in tree.nodes:
        gain = _gain(tree, node)
        if gain is not None:
            for skill in node.proposal.skills:
                gains[skill].append(gain)
    return {skill: SkillEvidence(len(values), fmean(values)) for skill, values in sorted(gains.items())}


def _gain(tree: Tree, node: Node) -> float | None:
    after = node.score("dev")
    if node.state is not NodeState.COMPLETED or after is None:
        return None
    before = (ancestor.score("dev") for ancestor in reversed(tree.lineage(node.id)[:-1]))
    return next((after - score for score in before if score is not None), None)
