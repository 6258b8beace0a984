"""The --llm options, steer and approve."""

import json
import tomllib
from pathlib import Path

import pytest

from autotrainer.study.steering import take_steering
from autotrainer.study.study import open_runtime

BASE = ("run", "--task", "math", "--budget", "2xCPUx6m", "--id", "one")


@pytest.fixture
def created(cli, monkeypatch):
    """Create a study without driving it; its config."""
    monkeypatch.delenv("AUTOTRAINER_LLM", raising=False)
    monkeypatch.setattr("autotrainer.cli.drive.drive", lambda root, **ways: None)

    def make(*arguments):
        ended = cli(*BASE, *arguments)
        path = Path("runs/one/study.toml")
        return ended, tomllib.loads(path.read_text()) if path.is_file() else {}

    return make


@pytest.fixture
def llm_study(make_study):
    """A study on disk that a language model plans."""

    def make(*more):
        root = make_study("one", None, *more)
        text = (root / "study.toml").read_text().replace('planner = "rules"', 'planner = "llm"')
        text = text.replace("[llm]\n", '[llm]\nmodel = "openai/local"\nbase_url = "http://127.0.0.1:9/v1"\n')
        (root / "study.toml").write_text(text)
        return root

    return make


def decision(outcome, name="d003"):
    data = {
        "decision": name,
        "node": "n003",
        "selected": "n001",
        "outcome": outcome,
        "reason": "",
        "model": "m",
    }
    more = {
        "model": "m",
        "answer": {"hypothesis": "h"},
        "fingerprint": "f",
        "repairs": 0,
        "rejections": [],
        "gates": [],
    }
    return ("llm_decision", {**data, **more, "patch": "diff --git a/x b/x\n", "diagnostics_diff": ""})


def test_llm_options_make_the_model_the_planner(created):
    ended, config = created(
        "--llm", "openai/local", "--llm-base-url", "http://127.0.0.1:9/v1", "--llm-budget", "0.5",
        "--llm-coder", "openai/other", "--llm-timeout", "30", "--approve", "edits",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert config["planner"] == "llm"
    assert config["policy"] == "puct"
    llm = config["llm"]
    assert (llm["model"], llm["coder"], llm["budget_usd"]) == ("openai/local", "openai/other", 0.5)
    assert (llm["timeout_s"], llm["approve"]) == (30.0, "edits")


def test_the_environment_names_the_model_and_another_planner_overrules_it(created, monkeypatch):
    monkeypatch.setenv("AUTOTRAINER_LLM", "openai/gpt-4o-mini")
    ended, config = created("--planner", "rules")
    assert ended.code == 0, ended.err
    assert (config["planner"], "model" in config["llm"]) == ("rules", False)


def test_the_environment_alone_is_enough(created, monkeypatch):
    monkeypatch.setenv("AUTOTRAINER_LLM", "openai/gpt-4o-mini")
    ended, config = created()
    assert ended.code == 0, ended.err
    assert (config["planner"], config["llm"]["model"]) == ("llm", "openai/gpt-4o-mini")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--planner", "llm"), "give --llm"),
        (("--llm-budget", "1"), "need a language model"),
        (("--approve", "all"), "--approve need"),
        (("--llm", "openai/x", "--llm-base-url", "127.0.0.1"), "base_url"),
        (("--llm", "openai/x", "--llm-base-url", "http://x/v1", "--llm-budget", "-1"), "budget_usd"),
        (("--llm", "openai/x", "--llm-base-url", "http://x/v1", "--approve", "some"), "approve"),
        (("--llm", "nobody/knows"), "price of nobody/knows"),
        (("--planner", "tpe", "--llm", "openai/gpt-4o"), "no use for --llm"),
    ],
)
def test_wrong_llm_options_are_one_line_and_create_nothing(created, arguments, words):
    ended, config = created(*arguments)
    assert (ended.code, config) == (2, {})
    assert words in ended.err
    assert ended.err.count("\n") == 1


def test_a_hint_reaches_the_journal_once(cli, llm_study):
    root = llm_study()
    assert cli("steer", "one", "try  a lower temperature").code == 0
    runtime = open_runtime(root)
    for _ in range(2):
        take_steering(runtime)
    texts = [event.data["text"] for event in runtime.journal if event.kind == "steered"]
    assert texts == ["try a lower temperature"]


def test_a_waiting_decision_is_shown_and_answered(cli, llm_study):
    root = llm_study(decision("waiting"))
    shown = cli("approve", "one", "--show").out
    assert "hypothesis: h" in shown
    assert "diff --git" in shown
    assert cli("approve", "one", "d009").code == 2
    assert cli("approve", "one", "--refuse", "too bold").code == 0
    runtime = open_runtime(root)
    take_steering(runtime)
    last = list(runtime.journal)[-1]
    assert (last.kind, last.data["agreed"], last.data["text"]) == ("approval", False, "too bold")
    assert cli("approve", "one").code == 2, "it was answered"


def test_steering_a_study_without_a_model_is_refused(cli, make_study):
    make_study("one")
    ended = cli("steer", "one", "hello")
    assert ended.code == 2
    assert "has no language model" in ended.err


def test_a_wrong_line_in_the_file_is_passed_over_once(llm_study):
    root = llm_study()
    lines = [{"kind": "nonsense"}, {"kind": "steered", "text": "a"}]
    (root / "steering.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    runtime = open_runtime(root)
    for _ in range(3):
        take_steering(runtime)
    kinds = [event.kind for event in runtime.journal]
    assert (kinds.count("steered"), kinds.count("note")) == (1, 1)


def test_what_the_model_may_spend_and_has_spent_is_in_show(cli, llm_study):
    root = llm_study()
    text = (root / "journal.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    rows[0]["data"]["config"]["llm"] = {"model": "openai/local", "budget_usd": 2.0}
    (root / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    runtime = open_runtime(root)
    runtime.record("llm_reserved", call=1, usd=0.5)
    runtime.record("llm_settled", call=1, usd=0.25)
    budget = json.loads(cli("show", "one", "--json").out)["budget"]["llm_usd"]
    assert budget == {"granted": 2.0, "used": 0.25}
