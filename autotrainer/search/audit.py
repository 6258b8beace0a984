"""The audit of kill rules: a share of the nodes that a rule would stop is run on, outcomes are counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from autotrainer.tree.event import Event
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

SHARE = 0.1
"""Share of the nodes behind that is run on."""


@dataclass(frozen=True, slots=True)
class Audit:
    """`n` nodes were run on, `wrong` of them ended as their study's best; `upper` bounds the rate at 95 %."""

    n: int
    wrong: int

    @property
    def upper(self) -> float:
        """The one-sided 95 % upper bound of the wrong kills' rate (Clopper and Pearson 1934); 1 for n = 0."""
        from scipy.stats import beta

        return (
            1.0
            if self.n == 0 or self.wrong >= self.n
            else float(beta.ppf(0.95, self.wrong + 1, self.n - self.wrong))
        )

    def __add__(self, other: Audit) -> Audit:
        """Two studies pooled."""
        return Audit(self.n + other.n, self.wrong + other.wrong)


def is_audited(seed: int, node: str) -> bool:
    """Whether a node that a rule would stop is run on; depends on the study's seed alone."""
    return Random(f"{seed}:audit:{node}").random() < SHARE


def audit(events: Iterable[Event], tree: Tree) -> Audit:
    """The audit of one study: nodes that were run on and have ended, and those the search would have missed.

    A kill would have been wrong where the node itself, or one that grew from it, is the best on dev.
    """
    notes = [
        event.data["data"]["audit"]
        for event in events
        if event.kind == "note" and "audit" in event.data["data"]
    ]
    best = tree.best()
    line = {node.id for node in tree.lineage(best.id)} if best is not None else set()
    ended = [tree[node] for node in notes if tree[node].state is NodeState.COMPLETED]
    counted = [node for node in ended if node.proposal.purpose is Purpose.SEARCH]
    return Audit(len(counted), sum(node.id in line for node in counted))
