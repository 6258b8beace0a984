"""What a node has that another one has not: recipe and harness, for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.ui import text
from autotrainer.ui.web.payloads import harness_diff, recipe_rows

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def node_difference(view: StudyView, node_id: str, other_id: str | None = None) -> RenderableType:
    """The difference to another node, by default to the parent.

    Raises:
        KeyError: there is no node of that id.
    """
    node = view.tree[node_id]
    other = view.tree[other_id] if other_id else view.tree[node.parent] if node.parent else None
    if other is None:
        return Text(f"{node_id} has no parent")
    return Group(
        Text(f"{other.id} \u2192 {node.id}", style="bold"),
        "",
        _recipe(other, node),
        "",
        _harness(view, node, other),
    )


def _recipe(one: Node, two: Node) -> RenderableType:
    before, after = recipe_rows(one), recipe_rows(two)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if not keys:
        return Text("recipe: equal")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("recipe", one.id, two.id):
        table.add_column(heading)
    for key in keys:
        table.add_row(key, before.get(key, text.NONE), after.get(key, text.NONE))
    return table


def _harness(view: StudyView, node: Node, other: Node) -> Text:
    found = harness_diff(view, node, other)
    if not found:
        return Text("harness: equal" if node.harness == other.harness else "harness: no version on one side")
    words = Text()
    for line in found.splitlines():
        words.append(text.clean(line) + "\n", style=_STYLES.get(line[:1], ""))
    return words
