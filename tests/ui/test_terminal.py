import io
import re

import pytest
from rich.console import Console

from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.ui.decisions import decisions
from autotrainer.ui.terminal import live_renderable, node_story, table_renderable, tree_renderable


def printed(renderable, *, width: int = 120, colour: bool = False) -> str:
    stream = io.StringIO()
    kinds = {"force_terminal": True, "color_system": "truecolor"} if colour else {"no_color": True}
    Console(file=stream, width=width, **kinds).print(renderable)
    return stream.getvalue()


def squeezed(renderable, **ways) -> str:
    return " ".join(printed(renderable, **ways).split())


def test_the_tree_has_a_line_a_node_with_change_score_and_mark(finished):
    out = printed(tree_renderable(finished))
    lines = {found[1]: found[0] for found in re.finditer(r"^[^a-z]*n0(\d\d) .*$", out, re.MULTILINE)}
    assert "dapo-clip-higher  epsilon_high: 0.28, +2  55.3 % \u00b14.3  \u2190 winner's path" in lines["07"]
    assert "pruned  collapse at step 15" in lines["03"]
    assert lines["15"].rstrip().endswith("\u2605 promoted")
    assert len(lines) == 17


@pytest.mark.parametrize("width", [40, 80, 200])
def test_everything_fits_the_width_of_the_terminal(finished, running, width):
    parts = [tree_renderable(finished), table_renderable(finished), node_story(finished, "n003")]
    for part in [*parts, live_renderable(running, running.events[-1].time)]:
        assert max(len(line) for line in printed(part, width=width).splitlines()) <= width


def test_without_colour_there_is_no_escape_sequence(finished, running):
    for part in (tree_renderable(finished), live_renderable(running, 0.0)):
        assert "\x1b" not in printed(part)
        assert "\x1b[" in printed(part, colour=True)


def test_the_table_compares_base_careful_and_winner(finished):
    out = squeezed(table_renderable(finished))
    assert "Base model 1 31.2 % 30.7 % 30.9 %" in out
    assert "Finalist n007 on fresh seeds 3 54.2 % 53.5 % 53.6 %" in out
    assert "Search paid: +4.6 points" in out


def test_the_live_view_shows_running_jobs_what_is_left_and_the_last_reasons(running):
    out = squeezed(live_renderable(running, running.events[-1].time + 7))
    assert "phase search best dev 55.3 % (n007)" in out
    assert "n009 kl-anchor: beta 0 \u2192 0.01 34/60" in out
    assert "n010 evaluating anneal-late" in out
    assert "3:42 min of 12:00 min device time used, 21 s held by jobs; 4:01 min to the deadline" in out
    assert "n008 completed: dev 52.3 %, +1.0 from n005" in out


def test_a_node_that_waits_has_no_figures(view_of):
    builder = TreeBuilder()
    builder.base()
    builder.running(builder.node())
    builder.node()
    out = squeezed(live_renderable(view_of(builder), 1e9 + 60))
    assert "n001 draft: same recipe, seed 1001 0/60 \u2013 \u2013 \u2013" in out
    assert "n002 proposed draft" in out
    assert "the clock has not started" in out


def test_a_study_without_nodes_can_be_shown(view_of):
    view = view_of()
    assert "no nodes yet" in printed(tree_renderable(view))
    assert "nothing is scored yet" in printed(table_renderable(view))
    assert "no job runs" in printed(live_renderable(view, 0.0))


def test_a_nodes_story_tells_why_what_changed_and_what_was_found(finished):
    out = squeezed(node_story(finished, "n003"))
    assert "a learning rate ten times higher, to see where it breaks" in out
    assert "lr 1e-4 \u2192 1e-3" in out
    assert "frac_reward_zero_std 0.97 (limit 0.9), steps 9 to 15" in out
    assert "n004 lr-backoff: lr 1e-3 \u2192 3e-4; completed, dev 48.6 %" in out


def test_control_characters_and_markup_of_a_log_do_not_reach_the_terminal(view_of):
    builder = TreeBuilder()
    builder.base()
    builder.pruned(builder.node(skills=["[red]\x1b]0;title\x07"]), a_finding("\x1b[2J[bold]"))
    view = view_of(builder)
    for part in (tree_renderable(view), live_renderable(view, 0.0), node_story(view, "n001")):
        out = printed(part)
        assert "\x1b" not in out
        assert "[red]" in out or "[bold]" in out


def test_decisions_about_one_node_are_told_in_order(finished):
    told = [decision.words.partition(":")[0] for decision in decisions(finished, node="n003")]
    assert told == [
        "n003 draft from the base model",
        "n003 shows collapse from step 9",
        "n003 is stopped early",
        "n003 pruned",
    ]
