import json

from autotrainer.testing.trees import TreeBuilder


def a_tree() -> TreeBuilder:
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4, 0.45)
    return builder


def test_show_as_json_has_the_newest_study(cli, make_study):
    make_study("one", a_tree())
    answer = json.loads(cli("show", "--json").out)
    assert answer["study"]["id"] == "one"
    assert [node["id"] for node in answer["nodes"]] == ["n000", "n001", "n002"]
    assert answer["budget"]["granted"] == 720


def test_show_as_json_has_one_node_of_the_newest_study(cli, make_study):
    make_study("one", a_tree())
    for arguments in (("one", "n001"), ("n001",)):
        assert json.loads(cli("show", *arguments, "--json").out)["scores"]["dev"]["mean"] == 0.4


def test_an_unknown_node_names_the_known_ones(cli, make_study):
    make_study("one", a_tree())
    ended = cli("show", "one", "n009")
    assert ended.code == 2
    assert "n000, n001, n002" in ended.err


def test_show_ends_with_state_and_the_way_on(cli, make_study):
    make_study("one", a_tree(), ("study_paused", {"reason": "stopped by a person"}))
    ended = cli("show")
    assert ended.code == 0
    assert "study   one: paused, 42 of 720 device-seconds used" in ended.out
    assert "resume  autotrainer resume one" in ended.out


def test_a_finished_study_shows_its_claim_with_interval(cli, make_study):
    gain = {"mean": 0.123, "low": 0.101, "high": 0.145, "n": 3}
    summary = {"winner": "n002", "gain_over_base": gain, "reasons": ["it held"]}
    make_study("one", a_tree(), ("study_finished", {"reason": "completed", "summary": summary}))
    out = cli("show").out
    assert "n002 (confirmed) against the base model on test: +12.3 points" in out
    assert "95 % interval +10.1 to +14.5, 3 seeds" in out
    assert out.count("It held") == 1
