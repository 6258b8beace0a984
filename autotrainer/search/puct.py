"""PUCT: branch where value is high and little was tried; wide early, deep late.

    score(v) = Q(v) + c(progress) P(v) sqrt(1 + N) / (1 + n(v))

n(v) is the number of v's children and N the number of all nodes of the search. Q(v) is the mean over v and
its children of their values, where a child that is still active counts 0 (virtual loss: parallel workers
spread out) and one that was lost counts 0. A node's value is the rank of its dev score among the candidates
of its own depth (a longer path is better by its length alone), mapped to [0, 1] and shrunk towards 1/2 by the
share of the scores' variance that seeds and items alone explain: ranks of a tree that differs by noise only
say nothing, and exploration decides. Children are admitted by progressive widening, at most
ceil(sqrt(nodes below v)) of them.

Selection in the manner of Silver et al., Mastering the game of Go without human knowledge (2017), and
Couetoux et al., Continuous upper confidence trees (2011), over the whole frontier instead of along one
descent: every node of the tree is a full attempt that can be branched from at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, variance
from typing import ClassVar

from autotrainer.search.base import SearchContext
from autotrainer.search.frontier import base, drafts, repairs, unanswered
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

SEED_DEVIATION, _ASSUMED_FREEDOM = 0.03, 3
"""Assumed standard deviation of a dev score p over seeds, times sqrt(p (1 - p)), before careful seeds have
shown it: 1.5 points in the middle, less near 0 and 1."""


LOST = (NodeState.PRUNED, NodeState.FAILED, NodeState.CRASHED, NodeState.CANCELLED)


def uniform(node: Node) -> float:
    """The prior while there is no evidence of skills: every node alike."""
    return 1.0


@dataclass(frozen=True, slots=True)
class Puct:
    """The policy; a pure function of tree and context.

    `explore_early` and `explore_late` are c at progress 0 and 1. Drafts end at progress `no_drafts_after`, or
    earlier where a path from the base would end more than `short` levels above the depth allowed; every level
    that a node's path would miss costs `unfinished`. `keep` is the share of a depth that is continued without
    being asked; with fewer candidates than `few` every loss is answered.
    At most `considered` nodes of a depth are compared.
    """

    name: ClassVar[str] = "puct"
    explore_early: float = 0.12
    explore_late: float = 0.03
    no_drafts_after: float = 0.5
    keep: float = 0.5
    unfinished: float = 1.0
    short: float = 1.0
    few: int = 4
    considered: int = 32
    prior: Callable[[Node], float] = uniform

    def select(self, tree: Tree, context: SearchContext) -> str | None:
        """A pruned node whose finding waits for an answer; else a draft if wanted; else the highest score.

        None only while nodes run whose end can change the choice.
        """
        waiting = unanswered(tree)
        if waiting is not None and (_fewer(tree, self.few) or _worth_an_answer(tree, waiting)):
            return waiting.id
        root = base(tree)
        if len(drafts(tree)) < context.drafts:
            return root.id
        depths = [depth for depth in tree.levels.by_depth if 0 < depth < context.max_depth]
        if not depths:
            return None if tree.active else root.id
        promoted = self._promoted(tree, depths)
        if promoted is not None:
            return promoted
        reachable = context.rounds_left >= context.max_depth - self.short
        if context.progress <= self.no_drafts_after and reachable:
            return root.id
        values = _Values(tree)
        nodes = self._better(tree, depths, values)
        admitted = [node for node in nodes if _admits(tree, node)] or nodes
        scores = self._scores(tree, admitted, values, context)
        return max(admitted, key=lambda node: (scores[node.id], -node.index)).id

    def _promoted(self, tree: Tree, depths: Sequence[int]) -> str | None:
        """The deepest, then best node of the better part of its depth that has no child that lives.

        Successive halving: at a depth so many nodes are gone on from as `keep` of those that have ended
        there.
        """
        lost = Counter(tree.depth(node.id) for node in tree.with_state(NodeState.PRUNED))
        for depth in sorted(depths, reverse=True):
            ranked = tree.levels.best_first(depth)
            for _, _, node in ranked[: int(self.keep * (len(ranked) + lost[depth]))]:
                if all(child.state in LOST for child in _tried(tree, tree[node])):
                    return node
        return None

    def _better(self, tree: Tree, depths: Sequence[int], values: _Values) -> list[Node]:
        """The better half of every depth, at most `considered` nodes of each; all where no node is better."""
        top = [
            tree[node] for depth in depths for *_, node in tree.levels.best_first(depth)[: self.considered]
        ]
        return [node for node in top if values[node.id] >= 0.5] or top

    def _scores(
        self, tree: Tree, nodes: list[Node], values: _Values, context: SearchContext
    ) -> dict[str, float]:
        total, progress = tree.count(Purpose.SEARCH, Purpose.CAREFUL), context.progress
        explore = self.explore_early + (self.explore_late - self.explore_early) * progress
        result = {}
        for node in nodes:
            children = _tried(tree, node)
            quality = fmean([values[node.id], *(values[child.id] for child in children)])
            bonus = explore * self.prior(node) * sqrt(1 + total) / (1 + len(children))
            missed = max(0.0, context.max_depth - tree.depth(node.id) - context.rounds_left)
            result[node.id] = quality + bonus - self.unfinished * missed
        return result


class _Values:
    """Value in [0, 1] of a node: its rank among the candidates of its depth, shrunk by the share of noise.

    0 for a node that is no candidate. At one depth equal scores have equal values and a better score never
    has a lower one.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree, self._noise = tree, seed_variance(tree)
        self._reliability: dict[int, float] = {}

    def __getitem__(self, node_id: str) -> float:
        tree = self._tree
        node, depth = tree[node_id], tree.depth(node_id)
        score = node.score("dev")
        level = tree.levels.by_depth.get(depth)
        if score is None or level is None or node.state is not NodeState.COMPLETED:
            return 0.0
        if depth not in self._reliability:
            spread = level.variance
            self._reliability[depth] = max(0.0, 1.0 - self._noise / spread) if spread > 0 else 0.0
        return 0.5 + self._reliability[depth] * (level.rank(score) - 0.5)


def _fewer(tree: Tree, number: int) -> bool:
    return sum(len(level.entries) for level in tree.levels.by_depth.values()) < number


def _worth_an_answer(tree: Tree, lost: Node) -> bool:
    """Whether a lost node is worth a repair: a careful seed, or a path's first loss without another child."""
    if lost.proposal.purpose is Purpose.CAREFUL:
        return True
    if repairs(tree, lost) > 0 or lost.parent is None or lost.parent == base(tree).id:
        return False
    return all(child.state in LOST for child in _tried(tree, tree[lost.parent]))


def shrunk_values(tree: Tree) -> dict[str, float]:
    """The value of every candidate (see _Values) and of the base, which is alone at its depth: 1/2."""
    values = _Values(tree)
    return {base(tree).id: 0.5, **{node.id: values[node.id] for node in tree.candidates}}


def seed_variance(tree: Tree) -> float:
    """Variance of a dev score over seeds: the assumed one as three seeds' worth, and what careful shows.

    Two or three seeds alone are off by a factor of several; the estimate is their mean with the assumption,
    weighted by degrees of freedom.
    """
    careful = [
        score
        for node in tree.with_purpose(Purpose.CAREFUL)
        if node.state is NodeState.COMPLETED and (score := node.score("dev")) is not None
    ]
    level = fmean(careful) if careful else (base(tree).score("dev") or 0.5)
    assumed = SEED_DEVIATION**2 * max(0.01, level * (1 - level))
    shown = variance(careful) * (len(careful) - 1) if len(careful) > 1 else 0.0
    freedom = max(0, len(careful) - 1)
    return (_ASSUMED_FREEDOM * assumed + shown) / (_ASSUMED_FREEDOM + freedom)


def _tried(tree: Tree, node: Node) -> list[Node]:
    return [
        child
        for child in tree.children(node.id)
        if child.proposal.purpose in (Purpose.SEARCH, Purpose.CAREFUL)
    ]


def _admits(tree: Tree, node: Node) -> bool:
    return len(_tried(tree, node)) < ceil(sqrt(tree.below(node.id)))
