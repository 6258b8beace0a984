"""Driving a study: what Ctrl-C, failures and the end of a study look like, with the study itself replaced."""

import json
import os
import signal
from pathlib import Path

import pytest

from autotrainer.cli.drive import resume_command
from autotrainer.errors import ConfigError, ExecutorError, StudyLockedError
from autotrainer.study.view import StudyView
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tracking.links import default_uri, open_command
from autotrainer.tree.journal import Journal


@pytest.fixture
def replace_study(monkeypatch):
    """What run_study does, by hand."""

    def replace(behaviour):
        monkeypatch.setattr("autotrainer.study.study.run_study", behaviour)

    return replace


def a_tree() -> TreeBuilder:
    builder = TreeBuilder()
    builder.base()
    return builder


def test_a_study_prints_its_start_its_end_and_the_commands_to_go_on(cli, replace_study, tmp_path: Path):
    def behaviour(root, *, on_tick, should_stop, on_setup):
        on_setup("preparing data")
        journal = Journal(root / "journal.jsonl")
        for event in a_tree().events:
            journal.append(event.kind, dict(event.data))
        journal.append("study_finished", {"reason": "completed", "summary": {}})
        (root / "report.html").touch()
        (root.parent / "mlflow.db").touch()
        on_tick(StudyView.read(root))
        return StudyView.read(root)

    replace_study(behaviour)
    ended = cli("run", "--task", "math", "--budget", "2xCPUx6m", "--id", "one")
    assert ended.code == 0, ended.err
    assert "study one: task math, model tiny (default), seed 0" in ended.out
    assert "preparing data" in ended.out
    assert f"report  {tmp_path}/runs/one/report.html" in ended.out
    assert f"mlflow ui --backend-store-uri sqlite:///{tmp_path}/runs/mlflow.db" in ended.out


def test_json_output_is_one_document(cli, replace_study, make_study):
    make_study("one", a_tree())
    replace_study(lambda root, **ways: StudyView.read(root))
    assert json.loads(cli("resume", "--json").out)["study"]["id"] == "one"


def test_one_interrupt_pauses_and_says_how_to_resume(cli, replace_study, make_study):
    root = make_study("one", a_tree())

    def behaviour(root, *, on_tick, should_stop, on_setup):
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        Journal(root / "journal.jsonl").append("study_paused", {"reason": "stopped by a person"})
        return StudyView.read(root)

    replace_study(behaviour)
    ended = cli("resume", "one")
    assert ended.code == 130
    assert "stopping: jobs write a checkpoint" in ended.out
    assert f"resume  {resume_command(root)}" in ended.out


def test_two_interrupts_leave_the_jobs_running_and_say_how_to_resume(cli, replace_study, make_study):
    root = make_study("one", a_tree())

    def behaviour(root, **ways):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    replace_study(behaviour)
    ended = cli("resume", "one")
    assert ended.code == 130
    assert "its jobs go on" in ended.out
    assert resume_command(root) in ended.out


@pytest.mark.parametrize(("error", "code"), [(StudyLockedError("held"), 2), (ExecutorError("lost"), 1)])
def test_an_error_of_the_study_is_one_line_with_its_code(cli, replace_study, make_study, error, code):
    make_study("one", a_tree())

    def behaviour(root, **ways):
        raise error

    replace_study(behaviour)
    ended = cli("resume", "one")
    assert (ended.code, ended.err) == (code, f"autotrainer: {error}\n")


def test_a_new_study_that_fails_on_the_users_input_is_removed(cli, replace_study, tmp_path: Path):
    def behaviour(root, **ways):
        assert (root / "study.toml").is_file()
        raise ConfigError("the budget is too small")

    replace_study(behaviour)
    assert cli("run", "--task", "math", "--budget", "2xCPUx6m", "--id", "one").code == 2
    assert not (tmp_path / "runs" / "one").exists()


def test_an_id_that_is_taken_is_refused(cli, make_study):
    make_study("one", a_tree())
    ended = cli("run", "--task", "math", "--budget", "2xCPUx6m", "--id", "one")
    assert ended.code == 2
    assert "give another --id, or resume it" in ended.err


def test_the_commands_that_are_printed_survive_a_shell(tmp_path: Path):
    runs = tmp_path / "my runs"
    assert open_command(default_uri(runs)) == f"mlflow ui --backend-store-uri 'sqlite:///{runs}/mlflow.db'"
    assert resume_command(runs / "one") == f"autotrainer resume one --runs '{runs}'"
