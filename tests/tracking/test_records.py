import math

import pytest

from autotrainer.study.view import StudyView
from autotrainer.testing.sample_study import write_sample_study
from autotrainer.tracking import records


@pytest.fixture(scope="module")
def view(tmp_path_factory) -> StudyView:
    return StudyView.read(write_sample_study(tmp_path_factory.mktemp("runs") / "sample"))


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("reward", "reward"),
        ("completions/clipped_ratio", "completions/clipped_ratio"),
        ("rewards/f(x)=1/mean", "rewards/f_x__1/mean"),
        ("../../etc/passwd", "etc/passwd"),
        ("/a//b/", "a/b"),
        ("./.", ""),
    ],
)
def test_any_key_becomes_a_name_that_mlflow_takes(key, name):
    assert records.metric_name(key) == name


def test_a_row_gives_its_numbers_and_nothing_else():
    row = {
        "schema_version": 1,
        "step": 7,
        "time": 1.7e9,
        "reward": 0.5,
        "loss": math.nan,
        "ok": True,
        "why": "x",
        "big": 10**400,
    }
    points = {point.key: point for point in records.metric_points(row, 0)}
    assert set(points) == {"reward", "loss", "big"}
    assert points["reward"] == records.Point("reward", 0.5, 1_700_000_000_000, 7)
    assert math.isnan(points["loss"].value)
    assert points["big"].value == math.inf


def test_a_records_digest_changes_with_the_node_and_with_nothing_else(view):
    node = view.tree["n007"]
    digest = records.node_record(view, node).digest
    assert records.node_record(view, node).digest == digest
    assert records.node_record(view, view.tree["n008"]).digest != digest


def test_a_note_cannot_smuggle_markup(view):
    note = records.node_note(view, view.tree["n009"])
    assert "'NoneType' object is not iterable" in note
    assert records._md("<b>[x](javascript:y)") == "\\<b\\>\\[x\\](javascript:y)"
