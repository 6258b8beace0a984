"""The run tree as one self-contained SVG: a box a node, coloured by dev score, its border by state.

Valid XML without scripts or outside resources; every text is escaped. It follows the reader's light or dark
scheme, alone and inside a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from autotrainer.files import write_text
from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState, Validity, Verdict
from autotrainer.ui import facts, text
from autotrainer.ui.tree_colours import STYLE, ScoreScale, legend
from autotrainer.ui.tree_layout import Place, confirmation_rows, place_tree

BOX_W, BOX_H, GAP_X, GAP_Y = 216, 66, 46, 16
MARGIN, TITLE_H, CAPTION_W = 24, 58, 130
_CHAR = 0.56
"""Mean width of a character in units of its size, on the safe side for the sans-serif fonts at hand."""
_BROKEN = (NodeState.FAILED, NodeState.CRASHED)


def tree_picture(view: StudyView) -> str:
    """The picture of a study as it is now, as the text of an `.svg` file."""
    places = place_tree(view.tree)
    scale = _scale(view)
    columns = 1 + max((place.column for place in places.values()), default=0)
    rows = 1 + max((place.row for place in places.values()), default=0)
    arms = confirmation_rows(view.tree)
    width = max(_left(columns) - GAP_X, _arms_width(arms), 720) + MARGIN
    parts = _edges(view, places)
    parts += [
        _box(view, view.tree[node], _left(place.column), _top(place.row), scale)
        for node, place in places.items()
    ]
    bottom = _top(rows)
    if arms:
        parts.append(_band(view, arms, bottom, width, scale))
        bottom += 44 + len(arms) * (BOX_H + GAP_Y) + 8
    keys, height = legend(scale, MARGIN, bottom + 8, width - 2 * MARGIN)
    return _document(view, width, bottom + height + 20, [*parts, keys])


def write_tree_picture(view: StudyView) -> Path:
    """Write the picture into the study's folder and return its path."""
    write_text(view.paths.tree_picture, tree_picture(view))
    return view.paths.tree_picture


def _document(view: StudyView, width: float, height: float, parts: Sequence[str]) -> str:
    name = text.clean(f"Run tree of study {view.config.id}")
    title = text.cut(text.clean(f"{view.config.id}: {view.config.task}, {view.config.model}"), 80)
    line = text.cut(facts.headline(view), int((width - 2 * MARGIN) / (12 * _CHAR)))
    mark = "SIMULATED. " if view.simulated else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="at-tree" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label={quoteattr(name)}>'
        f"<title>{escape(name)}</title><style>{STYLE}</style>"
        f'<rect class="at-page" width="{width:g}" height="{height:g}"/>'
        f'<text class="at-title" x="{MARGIN}" y="30">{escape(title)}</text>'
        f'<text class="at-note" x="{MARGIN}" y="49">{escape(mark + line)}</text>'
        + "\n".join(parts)
        + "</svg>\n"
    )


def _left(column: float) -> float:
    return MARGIN + column * (BOX_W + GAP_X)


def _top(row: float) -> float:
    return MARGIN / 2 + TITLE_H + row * (BOX_H + GAP_Y)


def _scale(view: StudyView) -> ScoreScale:
    base = view.tree.nodes[0].score("dev") if view.tree.nodes else None
    trained = [score for node in view.tree.nodes[1:] if (score := node.score("dev")) is not None]
    return ScoreScale.of(base, trained)


def _edges(view: StudyView, places: Mapping[str, Place]) -> list[str]:
    path = [node.id for node in facts.winner_path(view)]
    won = set(pairwise(path))
    ordinary: list[str] = []
    winning: list[str] = []
    for child in places:
        for order, parent in enumerate(view.tree[child].proposal.parents):
            if parent in places:
                line = _edge(view.tree[child], view.tree[parent], places, (parent, child) in won, order > 0)
                (winning if (parent, child) in won else ordinary).append(line)
    return ordinary + winning


def _edge(child: Node, parent: Node, places: Mapping[str, Place], won: bool, further: bool) -> str:
    a, b = places[parent.id], places[child.id]
    x1, y1 = _left(a.column) + BOX_W, _top(a.row) + BOX_H / 2
    x2, y2 = _left(b.column), _top(b.row) + BOX_H / 2
    middle = (x1 + x2) / 2
    start = child.proposal.start
    afresh = parent.parent is not None and start.node is None
    kinds = "at-edge" + " at-won" * won + " at-afresh" * afresh + " at-further" * further
    line = f'<path class="{kinds}" d="M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"/>'
    if start.node == parent.id and start.step != parent.last_step:
        line += f'<text class="at-fork" x="{x2 - 5:g}" y="{y2 - 5:g}">step {start.step}</text>'
    return line


def _box(view: StudyView, node: Node, x: float, y: float, scale: ScoreScale) -> str:
    score = node.score("dev")
    fill, ink = scale.colours(score, is_base=node.proposal.purpose is Purpose.BASE)
    star = "\u2605 " if node.verdict is Verdict.PROMOTED else ""
    state = "" if node.state is NodeState.COMPLETED else str(node.state)
    if node.validity is Validity.INVALID:
        state = "invalid"
    figure = text.percent(score) if score is not None else state
    what, last = _words(view, node)
    if score is not None and state:
        last = f"{state}: {last}"
    border = f'class="{_border(node)}" fill="{fill}" rx="9" width="{BOX_W}" height="{BOX_H}"'
    return (
        f'<g class="at-node" fill="{ink}"><title>{escape(_tooltip(view, node))}</title>'
        f'<rect {border} x="{x:g}" y="{y:g}"/>'
        f'<text class="at-id" x="{x + 12:g}" y="{y + 22:g}">{star}{escape(node.id)}</text>'
        f'<text class="at-score" x="{x + BOX_W - 12:g}" y="{y + 22:g}">{escape(figure)}</text>'
        f'<text class="at-what" x="{x + 12:g}" y="{y + 40:g}">{escape(_fit(what, 12.5))}</text>'
        f'<text class="at-change" x="{x + 12:g}" y="{y + 56:g}">{escape(_fit(last, 11.5))}</text></g>'
    )


def _words(view: StudyView, node: Node) -> tuple[str, str]:
    """A box's second and third line."""
    proposal, seed = node.proposal, f"seed {node.proposal.recipe.seed}"
    if proposal.purpose is Purpose.CAREFUL:
        return "careful recipe", seed
    if proposal.purpose is Purpose.CONTROL:
        return "careful, as long", seed
    if proposal.purpose is Purpose.CONFIRM:
        return f"path of {proposal.parents[-1]}", seed
    return ", ".join(proposal.skills) or str(proposal.edge), facts.main_change(view, node)


def _fit(words: str, size: float) -> str:
    return text.cut(text.clean(words), int((BOX_W - 24) / (size * _CHAR)))


def _border(node: Node) -> str:
    if node.state in _BROKEN or node.validity is Validity.INVALID:
        return "at-broken"
    if node.state is NodeState.PRUNED:
        return "at-pruned"
    if node.state is NodeState.CANCELLED:
        return "at-cancelled"
    if not node.state.is_terminal:
        return "at-active"
    return "at-promoted" if node.verdict is Verdict.PROMOTED else "at-done"


def _tooltip(view: StudyView, node: Node) -> str:
    lines = [
        f"{node.id}: {node.proposal.purpose} {node.proposal.edge}, {node.state}, "
        f"from {facts.trained_from(node)}",
        node.proposal.hypothesis,
        text.changes(view.changes(node), most=12),
        f"dev {text.percent(node.score('dev'))}" if node.score("dev") is not None else "",
        facts.reason(node),
        *(f"{finding.kind} from step {finding.onset_step}: {finding.message}" for finding in node.findings),
    ]
    return "\n".join(text.clean(line) for line in lines if line)


def _arms_width(arms: Sequence[tuple[str, Sequence[Node]]]) -> float:
    longest = max((len(nodes) for _, nodes in arms), default=0)
    return MARGIN * 2 + CAPTION_W + longest * (BOX_W + GAP_Y) if longest else 0


def _band(
    view: StudyView, arms: Sequence[tuple[str, Sequence[Node]]], top: float, width: float, scale: ScoreScale
) -> str:
    height = 44 + len(arms) * (BOX_H + GAP_Y)
    inside = width - 2 * MARGIN + 16
    parts = [
        f'<rect class="at-band" x="{MARGIN - 8}" y="{top:g}" width="{inside:g}" height="{height:g}" '
        'rx="12"/>',
        f'<text class="at-caption" x="{MARGIN + 6}" y="{top + 25:g}">'
        "Confirmation on fresh seeds, from the base model</text>",
    ]
    for place, (caption, nodes) in enumerate(arms):
        y = top + 38 + place * (BOX_H + GAP_Y)
        label = text.cut(text.clean(caption), int(CAPTION_W / (12 * _CHAR)))
        parts.append(
            f'<text class="at-note" x="{MARGIN + 6}" y="{y + BOX_H / 2 + 4:g}">{escape(label)}</text>'
        )
        parts += [
            _box(view, node, MARGIN + CAPTION_W + column * (BOX_W + GAP_Y), y, scale)
            for column, node in enumerate(nodes)
        ]
    return "".join(parts)
