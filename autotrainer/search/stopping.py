"""When to stop searching: where one constant recipe is as good as all that was tried.

Of k attempts that are worth the same, the best looks better than the rest by luck alone. A search is given up
where, at every depth, no changed node is above the unchanged careful recipe by more than the best of so many
equal ones would be in every second case.
"""

from __future__ import annotations

from math import sqrt
from statistics import fmean

from autotrainer.search.puct import seed_variance
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.tree import Tree

AFTER = 0.7
"""Share of the planned nodes before which a search is not given up."""
MIN_CHANGED, MIN_DEPTH = 8, 2
_LUCK = 0.5


def is_unchanged(tree: Tree, node: Node) -> bool:
    """Whether the whole path to a node is the careful recipe and nothing else, whatever its length and seeds.

    False where the tree has no careful run to compare with.
    """
    careful = next(iter(tree.with_purpose(Purpose.CAREFUL)), None)
    if careful is None:
        return False
    plain = careful.proposal.recipe.stages[-1]
    return all(
        (stage.knobs, stage.hooks, stage.rewards) == (plain.knobs, plain.hooks, plain.rewards)
        for stage in tree.path_stages(node.id)
    )


def constant_is_as_good(tree: Tree) -> str | None:
    """Why the search should end, or None.

    Depths that nobody has run unchanged are not judged; depth 1 has to be, and at least one below it, with at
    least eight changed nodes together.
    """
    from scipy.stats import norm

    unchanged: dict[int, list[float]] = {}
    changed: dict[int, list[float]] = {}
    for node in tree.candidates:
        score = node.score("dev")
        if score is not None:
            group = unchanged if is_unchanged(tree, node) else changed
            group.setdefault(tree.depth(node.id), []).append(score)
    judged = [depth for depth in changed if depth in unchanged]
    count = sum(len(changed[depth]) for depth in judged)
    if count < MIN_CHANGED or 1 not in judged or max(judged) < MIN_DEPTH:
        return None
    deviation, leads = sqrt(seed_variance(tree)), []
    for depth in judged:
        scores, plain = changed[depth], unchanged[depth]
        lead = max(scores) - fmean(plain)
        if lead > deviation * sqrt(1 + 1 / len(plain)) * float(norm.ppf(_LUCK ** (1 / len(scores)))):
            return None
        leads.append(lead)
    return (
        f"one constant recipe is as good: of {count} changed nodes the best is {100 * max(leads):+.1f} "
        "points from the unchanged ones of its depth, which so many equal ones reach by luck"
    )
