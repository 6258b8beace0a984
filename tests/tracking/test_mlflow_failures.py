"""A tracking server that cannot be reached, or comes back."""

import socket
import time
from pathlib import Path

import pytest

from autotrainer.study.view import StudyView
from autotrainer.testing.sample_study import SampleStudy
from autotrainer.tracking.base import Tracker
from autotrainer.tracking.mlflow import MlflowTracker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def view(tmp_path: Path) -> StudyView:
    study = SampleStudy(tmp_path / "one")
    study.start()
    study.base()
    return StudyView.read(study.root)


@pytest.fixture
def dead_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_an_unreachable_server_is_an_error_text_and_costs_little(tmp_path, view, dead_port):
    tracker: Tracker = MlflowTracker(tmp_path, uri=f"http://127.0.0.1:{dead_port}", clock=Clock())
    tracker.mirror(view)
    assert "127.0.0.1" in tracker.last_error
    started = time.monotonic()
    for _ in range(100):
        tracker.mirror(view)
    assert time.monotonic() - started < 0.5


def test_it_is_asked_again_less_and_less_often(tmp_path, view, monkeypatch):
    clock, asked = Clock(), []
    tracker = MlflowTracker(tmp_path, clock=clock)

    def refuse(self, view):
        asked.append(clock.now)
        raise ConnectionRefusedError("nobody there")

    monkeypatch.setattr(MlflowTracker, "_mirror", refuse)
    for second in range(0, 200, 5):
        clock.now = float(second)
        tracker.mirror(view)
    assert asked == [0, 15, 45, 105]
    assert tracker.last_error == "ConnectionRefusedError: nobody there"


def test_a_server_that_comes_back_is_caught_up_with_at_the_latest_at_the_end(tmp_path, view, monkeypatch):
    clock, seen = Clock(), []
    tracker = MlflowTracker(tmp_path, clock=clock)

    def refuse(self, view):
        raise ConnectionRefusedError("nobody there")

    monkeypatch.setattr(MlflowTracker, "_mirror", refuse)
    tracker.mirror(view)
    monkeypatch.setattr(MlflowTracker, "_mirror", lambda self, view: seen.append(view))
    tracker.mirror(view)
    assert seen == []
    tracker.close()
    assert seen == [view]
    assert tracker.last_error is None


def test_a_broken_metrics_file_does_not_stop_the_study(tmp_path):
    study = SampleStudy(tmp_path / "broken")
    study.start()
    study.base()
    from autotrainer.tree.proposal import Purpose

    node = study.seed(Purpose.CAREFUL, 11)
    study.run(node, 5)
    path = study.root / "nodes" / node / "1" / "metrics.jsonl"
    path.write_text("not json\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    tracker = MlflowTracker(tmp_path, clock=Clock())
    tracker.mirror(StudyView.read(study.root))
    assert "not JSON" in tracker.last_error


def test_nothing_is_imported_or_written_before_the_first_mirror(tmp_path):
    import subprocess
    import sys

    code = "import sys; from autotrainer.tracking.mlflow import MlflowTracker; from pathlib import Path; "
    code += f"MlflowTracker(Path({str(tmp_path)!r})).close(); assert 'mlflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []
