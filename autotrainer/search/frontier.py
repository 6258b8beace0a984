"""What selection policies share: nodes to branch from, findings that wait for an answer, drafts."""

from __future__ import annotations

from math import inf

from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Severity
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Proposal, Purpose, Start
from autotrainer.tree.state import NodeState, Validity
from autotrainer.tree.tree import Tree

MAX_REPAIRS = 3
"""Repairs of repairs; after so many the branch is given up."""

Signature = tuple[Start, Recipe]


def signature(proposal: Proposal) -> Signature:
    """Start and recipe without the seed: equal for two proposals that ask for the same training."""
    recipe = proposal.recipe
    start = proposal.start if proposal.start.mode != "base" else Start()
    return start, Recipe(recipe.model, recipe.task, recipe.stages, 0)


def base(tree: Tree) -> Node:
    """The base model's node."""
    return tree.nodes[0]


def branchable(tree: Tree, max_depth: int) -> tuple[Node, ...]:
    """Completed, valid, scored nodes whose children stay within the depth; in the order of their proposal."""
    return tuple(
        node
        for node in tree.candidates
        if node.validity is Validity.VALID and tree.depth(node.id) < max_depth
    )


def drafts(tree: Tree) -> tuple[Node, ...]:
    """The search's own first attempts from the base model, whatever became of them."""
    return tuple(node for node in tree.children(base(tree).id) if node.proposal.purpose is Purpose.SEARCH)


def unanswered(tree: Tree) -> Node | None:
    """The oldest pruned node with a finding that nothing answers yet, or None.

    An answer is a node proposed because of it, in whatever state, or because of another node that trained the
    same recipe from the same start. Chains of more than MAX_REPAIRS answers are given up.
    """
    waiting = [node for node in tree.with_state(NodeState.PRUNED) if _asks(node)]
    if not waiting:
        return None
    answered, works = tree.answered, _lowest_rate_that_works(tree)
    known = [signature(tree[other].proposal) for other in answered if tree[other].state is NodeState.PRUNED]
    for node in waiting:
        if (
            node.id not in answered
            and not _explained(node, works)
            and repairs(tree, node) < MAX_REPAIRS
            and signature(node.proposal) not in known
        ):
            return node
    return None


def repairs(tree: Tree, node: Node) -> int:
    """How many pruned nodes in a row this node descends from, by what it was proposed to answer."""
    count = 0
    while (asked := node.proposal.finding_node) is not None and tree[asked].state is NodeState.PRUNED:
        node, count = tree[asked], count + 1
    return count


def _asks(node: Node) -> bool:
    searched = node.proposal.purpose in (Purpose.SEARCH, Purpose.CAREFUL) and node.validity is Validity.VALID
    return searched and any(finding.severity is not Severity.INFO for finding in node.findings)


def _lowest_rate_that_works(tree: Tree) -> float:
    """The lowest learning rate at which the base was trained without a loss; infinity where it never was."""
    return min(
        (
            _rate(tree[node])
            for *_, node in tree.levels.best_first(1)
            if tree[node].proposal.start.mode == "base"
        ),
        default=inf,
    )


def _explained(node: Node, works: float) -> bool:
    """Whether a draft was lost at a rate above one that works: then that was it."""
    return (
        node.proposal.start.mode == "base" and node.proposal.purpose is Purpose.SEARCH and _rate(node) > works
    )


def _rate(node: Node) -> float:
    return float(node.proposal.recipe.stages[-1].knobs.get("learning_rate", 0.0))
