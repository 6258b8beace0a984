from collections import namedtuple

import pytest

from autotrainer.study.disk import GIB, watch_disk
from autotrainer.study.view import StudyView
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.tree import Tree

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def grown(opened):
    """A careful node with three checkpoints on disk, the second of which a child started from."""
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4)
    steps = builder.tree["n001"].outcome.checkpoints
    from autotrainer.tree.proposal import Start

    builder.node("n001", start=Start("weights", "n001", steps[1]))
    runtime = opened(builder)
    for step in steps:
        folder = runtime.paths.checkpoint("n001.1", step)
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"x")
    return runtime, steps


def free(monkeypatch, *gib: float) -> None:
    """Say so many GiB are free, one after the other; the last for good."""
    left = list(gib)

    def usage(path: object) -> Usage:
        return Usage(0, 0, (left.pop(0) if len(left) > 1 else left[0]) * GIB)

    monkeypatch.setattr("shutil.disk_usage", usage)


def test_a_disk_with_room_changes_nothing(grown, monkeypatch):
    runtime, steps = grown
    free(monkeypatch, 50.0)
    watch_disk(runtime)
    assert runtime.tree["n001"].outcome.checkpoints == steps


def test_old_checkpoints_go_first_but_never_the_last_or_one_that_was_forked_from(grown, monkeypatch):
    runtime, steps = grown
    free(monkeypatch, 0.5, 0.5, 0.5, 5.0)
    watch_disk(runtime)
    assert runtime.tree["n001"].outcome.checkpoints == steps[1:]
    there = sorted(int(p.name) for p in runtime.paths.checkpoint("n001.1", steps[0]).parent.iterdir())
    assert there == list(steps[1:])
    assert not runtime.should_stop()
    assert Tree.replay(StudyView.read(runtime.paths.root).events) == runtime.tree


def test_a_disk_that_stays_full_pauses_the_study_and_says_why(grown, monkeypatch):
    runtime, _ = grown
    free(monkeypatch, 0.1)
    watch_disk(runtime)
    assert runtime.should_stop()
    assert "disk is nearly full: 0.10 GiB are free, budget.min_free_gib is 1" in runtime.stop_reason()
