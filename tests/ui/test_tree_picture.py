import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.tree.proposal import Purpose
from autotrainer.ui.tree_layout import place_tree
from autotrainer.ui.tree_picture import BOX_H, BOX_W, tree_picture

SVG = "{http://www.w3.org/2000/svg}"


def boxes(picture: str) -> dict[str, ElementTree.Element]:
    """The boxes of a picture by node id."""
    groups = ElementTree.fromstring(picture.encode()).iter(f"{SVG}g")
    named = [group for group in groups if group.get("class") == "at-node"]
    return {group.find(f"{SVG}text[@class='at-id']").text.removeprefix("\u2605 "): group for group in named}


def words(group: ElementTree.Element) -> str:
    return " ".join(text.text or "" for text in group.iter(f"{SVG}text"))


def pixels(element: Any, *names: str) -> tuple[float, ...]:
    return tuple(float(element.get(name)) for name in names)


def a_big_tree(nodes: int) -> TreeBuilder:
    builder, rng = TreeBuilder(), Random(nodes)
    ids = [builder.base(), *builder.careful_seeds(0.4, 0.45)]
    for _ in range(nodes):
        node = builder.node(rng.choice(ids), knobs={"beta": rng.choice([0.0, 0.01])})
        ids.append(builder.completed(node, rng.uniform(0.2, 0.6)))
    return builder


def test_every_node_has_one_box_with_its_score(finished):
    found = boxes(tree_picture(finished))
    assert set(found) == {node.id for node in finished.tree.nodes}
    assert "55.3 %" in words(found["n007"])
    assert "dapo-clip-higher" in words(found["n007"])


def test_state_and_verdict_are_drawn(finished):
    picture = tree_picture(finished)
    found = boxes(picture)
    borders = {node: group.find(f"{SVG}rect").get("class") for node, group in found.items()}
    assert (borders["n003"], borders["n009"], borders["n015"]) == ("at-pruned", "at-broken", "at-promoted")
    assert picture.count("\u2605 n015") == 1


def test_the_finalists_path_and_a_fresh_start_have_lines_of_their_own(finished):
    lines = [
        path.get("class")
        for path in ElementTree.fromstring(tree_picture(finished).encode()).iter(f"{SVG}path")
    ]
    drawn = [line for line in lines if line != "at-edge"]
    assert drawn.count("at-edge at-won") == 3 + 1  # three edges and the legend
    assert drawn.count("at-edge at-afresh") == 1 + 1


def test_an_invalid_node_is_drawn_as_broken_and_without_its_score(view_of):
    builder = TreeBuilder()
    builder.base()
    node = builder.completed(builder.node(), 0.9)
    builder.emit("node_validity", node=node, validity="invalid", reason="frozen files changed")
    group = boxes(tree_picture(view_of(builder)))[node]
    assert group.find(f"{SVG}rect").get("class") == "at-broken"
    assert "invalid" in words(group)
    assert "90.0 %" not in words(group)


def test_text_of_skills_and_hypotheses_cannot_break_out(view_of):
    builder = TreeBuilder()
    base = builder.base()
    builder.pruned(
        builder.node(base, skills=['</text><script>alert("x")</script>&\x1b[31m']), a_finding("<b>\x00")
    )
    picture = tree_picture(view_of(builder))
    root = ElementTree.fromstring(picture.encode())
    assert not list(root.iter(f"{SVG}script"))
    assert "\x1b" not in picture
    assert "alert" in ElementTree.tostring(root, encoding="unicode")


@pytest.mark.parametrize("nodes", [0, 1, 12, 30, 200])
def test_boxes_never_overlap_and_lie_inside_the_picture(view_of, nodes):
    root = ElementTree.fromstring(tree_picture(view_of(a_big_tree(nodes))).encode())
    width, height = pixels(root, "width", "height")
    rects = [group.find(f"{SVG}rect") for group in root.iter(f"{SVG}g") if group.get("class") == "at-node"]
    corners = sorted(pixels(rect, "x", "y") for rect in rects)
    assert all(0 <= x <= width - BOX_W and 0 <= y <= height - BOX_H for x, y in corners)
    assert all(b[0] > a[0] or b[1] - a[1] >= BOX_H for a, b in pairwise(corners))


def test_children_stand_right_of_their_parent_and_leaves_have_own_rows(finished):
    places = place_tree(finished.tree)
    for node in finished.tree.with_purpose(Purpose.CAREFUL, Purpose.SEARCH):
        assert places[node.id].column == places[node.parent].column + 1
    leaves = [places[node].row for node in ("n002", "n004", "n006", "n008", "n009", "n010")]
    assert sorted(leaves) == [0, 1, 2, 3, 4, 5]


def test_a_study_without_nodes_has_a_picture(view_of):
    assert boxes(tree_picture(view_of())) == {}


def test_a_running_study_shows_what_runs(running):
    found = boxes(tree_picture(running))
    assert "running" in words(found["n009"])
    assert "evaluating" in words(found["n010"])
