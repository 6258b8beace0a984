import pytest

from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.proposal import Purpose
from autotrainer.ui import facts


def test_the_finalist_is_the_confirmed_node_and_not_its_replicate(finished):
    assert finished.tree.promoted().id == "n015"
    assert [node.id for node in facts.winner_path(finished)] == ["n000", "n001", "n005", "n007"]


def test_before_the_end_the_path_is_that_of_the_best_node(running):
    assert facts.finalist(running).id == "n007"
    assert facts.headline(running).startswith("Not judged yet: the study is running")


def test_device_time_adds_up_to_the_ledger(finished, running):
    for view in (finished, running):
        assert sum(row.total_s for row in facts.device_time(view)) == pytest.approx(view.ledger.used)


def test_pathologies_say_who_treated_them_and_what_came_of_it(finished):
    rows = [
        (t.node.id, t.finding.kind, [n.id for n in t.treated_by], t.outcome)
        for t in facts.treatments(finished)
    ]
    assert rows == [
        ("n003", "collapse", ["n004"], "gone in n004"),
        ("n005", "zero_advantage", ["n007"], "gone in n007"),
        ("n008", "zero_advantage", [], "not treated"),
    ]


def test_the_comparison_has_the_mean_of_seeds_and_of_one_run_its_interval(finished):
    arms = {arm.name: arm for arm in facts.comparison(finished)}
    scores = [node.score() for node in finished.tree.with_purpose(Purpose.CONFIRM)]
    seeds = arms["Finalist n007 on fresh seeds"].figures["dev"]
    assert seeds == (pytest.approx(sum(scores) / 3), min(scores), max(scores))
    base = finished.tree["n000"].scores["test"]
    assert arms["Base model"].figures["test"] == (base.mean, base.low, base.high)
    assert arms["Careful recipe"].figures["test"] is None


def test_a_search_that_did_not_pay_says_so_first_and_keeps_its_rejected_finalist(view_of):
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.5, 0.51)
    found = builder.completed(builder.node(), 0.55)
    builder.completed(builder.node(purpose=Purpose.CONFIRM, parents=("n000", found)), 0.48, 0.47)
    control = builder.completed(builder.node(purpose=Purpose.CONTROL), 0.5, 0.5)
    builder.emit("node_verdict", node=control, verdict="promoted", reason="beats the base", figures={})
    said = "no gain of the search is claimed: n003 holdout was not scored"
    summary = {"arm": "careful", "winner": control, "finalist": found, "reasons": [said]}
    view = view_of(builder, ("study_finished", {"reason": "completed", "summary": summary}))
    assert facts.headline(view) == f"Search did not pay: {said}."
    assert [node.id for node in facts.winner_path(view)] == ["n000", control]
    assert f"Finalist {found} on fresh seeds" in [arm.name for arm in facts.comparison(view)]


def test_without_a_search_the_headline_does_not_blame_it(view_of):
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.5)
    said = "no search was run: the careful recipe goes home"
    view = view_of(
        builder, ("study_finished", {"reason": "completed", "summary": {"arm": "careful", "reasons": [said]}})
    )
    assert facts.headline(view) == "No search was run: the careful recipe goes home."


def test_steps_before_a_node_are_those_of_its_path(finished):
    assert [facts.steps_before(finished, finished.tree[n]) for n in ("n001", "n005", "n007", "n004")] == [
        0,
        60,
        120,
        0,
    ]
