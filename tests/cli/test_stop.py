import json

import pytest
from filelock import FileLock

from autotrainer.study.view import StudyView
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.journal import Journal


def test_a_study_under_control_is_asked_to_stop(cli, make_study):
    root = make_study("one")
    with FileLock(root / "control.lock"):
        ended = cli("stop")
    assert ended.code == 0
    assert "was asked to stop" in ended.out
    assert "autotrainer resume one" in ended.out
    assert json.loads((root / "stop.json").read_text())["reason"] == "stopped by a person"


def test_the_jobs_of_a_study_without_control_plane_are_stopped_by_taking_it_up(cli, make_study, monkeypatch):
    root = make_study("one", TreeBuilder())

    def take_up(root, *, should_stop):
        assert should_stop()
        Journal(root / "journal.jsonl").append("study_paused", {"reason": "stopped by a person"})
        return StudyView.read(root)

    monkeypatch.setattr("autotrainer.study.study.run_study", take_up)
    ended = cli("stop")
    assert ended.code == 0
    assert "study one is paused" in ended.out
    assert StudyView.read(root).state == "paused"


@pytest.mark.parametrize(
    ("kind", "data", "state"),
    [
        ("study_finished", {"reason": "completed", "summary": {}}, "finished"),
        ("study_paused", {"reason": "stopped by a person"}, "paused"),
    ],
)
def test_stopping_a_study_that_does_not_run_is_refused(cli, make_study, kind, data, state):
    root = make_study("one", None, (kind, data))
    ended = cli("stop")
    assert ended.code == 2
    assert state in ended.err
    assert not (root / "stop.json").exists()
