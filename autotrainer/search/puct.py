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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, pvariance, variance
from typing import ClassVar

from autotrainer.search.base import SearchContext
from autotrainer.search.frontier import base, branchable, drafts, repairs, unanswered
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

SEED_DEVIATION, _ASSUMED_FREEDOM = 0.03, 3
"""Assumed standard deviation of a dev score p over seeds, times sqrt(p (1 - p)), before careful seeds have shown
it: 1.5 points in the middle, less near 0 and 1."""


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
    """

    name: ClassVar[str] = "puct"
    explore_early: float = 0.12
    explore_late: float = 0.03
    no_drafts_after: float = 0.5
    keep: float = 0.5
    unfinished: float = 1.0
    short: float = 1.0
    few: int = 4
    prior: Callable[[Node], float] = uniform

    def select(self, tree: Tree, context: SearchContext) -> str | None:
        """A pruned node whose finding waits for an answer; else a draft if wanted; else the highest score.

        None only while nodes run whose end can change the choice.
        """
        waiting = unanswered(tree)
        if waiting is not None and (len(tree.candidates) < self.few or _worth_an_answer(tree, waiting)):
            return waiting.id
        root = base(tree)
        if len(drafts(tree)) < context.drafts:
            return root.id
        frontier = branchable(tree, context.max_depth)
        if not frontier:
            return None if tree.active else root.id
        values = shrunk_values(tree)
        promoted = self._promoted(tree, frontier, values)
        if promoted is not None:
            return promoted.id
        reachable = context.rounds_left >= context.max_depth - self.short
        if context.progress <= self.no_drafts_after and reachable:
            return root.id
        below = _below(tree)
        better = [node for node in frontier if values.get(node.id, 0.0) >= 0.5] or list(frontier)
        admitted = [node for node in better if _admits(tree, node, below)] or better
        scores = self._scores(tree, admitted, values, context)
        return max(admitted, key=lambda node: (scores[node.id], -node.index)).id

    def _promoted(self, tree: Tree, frontier: Sequence[Node], values: Mapping[str, float]) -> Node | None:
        """The deepest, then best childless node of the better part of its depth, as successive halving has it.

        At a depth so many nodes may have children as `keep` of those that have ended there.
        """
        levels: dict[int, list[Node]] = {}
        for node in frontier:
            levels.setdefault(tree.depth(node.id), []).append(node)
        lost = Counter(tree.depth(node.id) for node in tree.with_state(NodeState.PRUNED))
        for depth in sorted(levels, reverse=True):
            ranked = sorted(
                levels[depth],
                key=lambda node: (-values.get(node.id, 0.0), -(node.score() or 0.0), node.index),
            )
            for node in ranked[: int(self.keep * (len(ranked) + lost[depth]))]:
                if all(child.state in LOST for child in _tried(tree, node)):
                    return node
        return None

    def _scores(
        self, tree: Tree, nodes: list[Node], values: Mapping[str, float], context: SearchContext
    ) -> dict[str, float]:
        total, progress = len(_searched(tree)), context.progress
        explore = self.explore_early + (self.explore_late - self.explore_early) * progress
        result = {}
        for node in nodes:
            children = _tried(tree, node)
            quality = fmean([values.get(node.id, 0.0), *(values.get(child.id, 0.0) for child in children)])
            bonus = explore * self.prior(node) * sqrt(1 + total) / (1 + len(children))
            missed = max(0.0, context.max_depth - tree.depth(node.id) - context.rounds_left)
            result[node.id] = quality + bonus - self.unfinished * missed
        return result


def _worth_an_answer(tree: Tree, lost: Node) -> bool:
    """Whether a lost node is worth a repair: a careful seed, or the first loss on a path without another child."""
    if lost.proposal.purpose is Purpose.CAREFUL:
        return True
    if repairs(tree, lost) > 0 or lost.parent is None or lost.parent == base(tree).id:
        return False
    return all(child.state in LOST for child in _tried(tree, tree[lost.parent]))


def shrunk_values(tree: Tree) -> dict[str, float]:
    """Value in [0, 1] of the base and every candidate: its rank at its depth, shrunk by the share of noise.

    At one depth equal scores have equal values and a better score never has a lower value.
    """
    levels: dict[int, dict[str, float]] = {}
    for node in (base(tree), *tree.candidates):
        score = node.score("dev")
        if score is not None:
            levels.setdefault(tree.depth(node.id), {})[node.id] = score
    values: dict[str, float] = {}
    noise = seed_variance(tree)
    for known in levels.values():
        values |= _values(known, noise)
    return values


def _values(known: Mapping[str, float], noise: float) -> dict[str, float]:
    """Shrunk ranks of the scores of one depth; 1/2 for a single one."""
    if len(known) < 2:
        return dict.fromkeys(known, 0.5)
    scores = list(known.values())
    spread = pvariance(scores)
    reliability = max(0.0, 1.0 - noise / spread) if spread > 0 else 0.0
    ranks = _ranks(scores)
    return {node: 0.5 + reliability * (ranks[score] - 0.5) for node, score in known.items()}


def seed_variance(tree: Tree) -> float:
    """Variance of a dev score over seeds: the assumed one as three seeds' worth, and what careful shows.

    Two or three seeds alone are off by a factor of several; the estimate is their mean with the assumption,
    weighted by degrees of freedom.
    """
    careful = [
        score
        for node in tree.candidates
        if node.proposal.purpose is Purpose.CAREFUL and (score := node.score("dev")) is not None
    ]
    level = fmean(careful) if careful else (base(tree).score("dev") or 0.5)
    assumed = SEED_DEVIATION**2 * max(0.01, level * (1 - level))
    shown = variance(careful) * (len(careful) - 1) if len(careful) > 1 else 0.0
    freedom = max(0, len(careful) - 1)
    return (_ASSUMED_FREEDOM * assumed + shown) / (_ASSUMED_FREEDOM + freedom)


def _ranks(scores: list[float]) -> Mapping[float, float]:
    """Mean rank of each distinct score, from 0 for the lowest to 1 for the highest."""
    places: dict[float, list[int]] = {}
    for place, score in enumerate(sorted(scores)):
        places.setdefault(score, []).append(place)
    return {score: fmean(found) / (len(scores) - 1) for score, found in places.items()}


def _searched(tree: Tree) -> tuple[Node, ...]:
    return tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL)


def _tried(tree: Tree, node: Node) -> list[Node]:
    return [
        child
        for child in tree.children(node.id)
        if child.proposal.purpose in (Purpose.SEARCH, Purpose.CAREFUL)
    ]


def _below(tree: Tree) -> dict[str, int]:
    """Size of every node's subtree, itself included; children come after their parents in a tree."""
    sizes = {node.id: 1 for node in tree.nodes}
    for node in reversed(tree.nodes):
        if node.parent is not None:
            sizes[node.parent] += sizes[node.id]
    return sizes


def _admits(tree: Tree, node: Node, below: Mapping[str, int]) -> bool:
    return len(_tried(tree, node)) < ceil(sqrt(below[node.id]))
