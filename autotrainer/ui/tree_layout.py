"""Where the boxes of the run tree go: left to right by depth, children around their parent's height."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.tree import Tree

SEARCHED = (Purpose.BASE, Purpose.CAREFUL, Purpose.SEARCH)


@dataclass(frozen=True, slots=True)
class Place:
    """A cell of the grid: column = depth, row = height in rows (a parent may lie between two)."""

    column: int
    row: float


def place_tree(tree: Tree) -> dict[str, Place]:
    """The cell of every node of the search (base and careful included); no two of them overlap.

    Every leaf has a row of its own, in the order of a walk that takes children by age; a parent lies midway
    between its first and its last child.
    """
    shown = {node.id for node in tree.with_purpose(*SEARCHED)}
    places: dict[str, Place] = {}
    rows = 0
    for root in tree.nodes:
        if root.parent is not None or root.id not in shown:
            continue
        stack: list[tuple[Node, int, bool]] = [(root, 0, False)]
        while stack:
            node, depth, done = stack.pop()
            children = [child for child in tree.children(node.id) if child.id in shown]
            if done:
                places[node.id] = Place(depth, (places[children[0].id].row + places[children[-1].id].row) / 2)
            elif children:
                stack.append((node, depth, True))
                stack += [(child, depth + 1, False) for child in reversed(children)]
            else:
                places[node.id] = Place(depth, float(rows))
                rows += 1
    return places


def confirmation_rows(tree: Tree) -> list[tuple[str, Sequence[Node]]]:
    """The arms of the confirmation, each with its caption: finalists first, then the control."""
    arms: dict[str, list[Node]] = {}
    for node in tree.with_purpose(Purpose.CONFIRM):
        arms.setdefault(f"path of {node.proposal.parents[-1]}", []).append(node)
    control = list(tree.with_purpose(Purpose.CONTROL))
    return [*arms.items(), *([("careful, as long", control)] if control else [])]
