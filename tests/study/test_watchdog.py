import subprocess
from types import SimpleNamespace

import pytest

from autotrainer.study import watchdog


@pytest.fixture
def control_plane(monkeypatch, tmp_path):
    """A control plane that ends with these exit codes and leaves these states, one after the other."""
    calls: list[list[str]] = []

    def set_up(*ends: tuple[int, str]):
        left = list(ends)
        state = SimpleNamespace(state="running")

        def run(command, **_):
            calls.append(command)
            code, state.state = left.pop(0)
            return subprocess.CompletedProcess(command, code)

        monkeypatch.setattr(watchdog.subprocess, "run", run)
        monkeypatch.setattr(watchdog.StudyView, "read", lambda root: state)
        return calls

    return set_up


def test_a_control_plane_that_dies_is_started_again_until_the_study_is_finished(control_plane, tmp_path):
    calls = control_plane((-9, "running"), (1, "running"), (0, "finished"))
    assert watchdog.watch(tmp_path / "s", wait_s=0.0) == 0
    assert len(calls) == 3
    assert all(call[-4:] == ["resume", "s", "--runs", str(tmp_path)] for call in calls)


@pytest.mark.parametrize(("code", "state"), [(0, "paused"), (130, "paused"), (2, "running")])
def test_a_pause_or_wrong_input_is_not_tried_again(control_plane, tmp_path, code, state):
    calls = control_plane((code, state))
    assert watchdog.watch(tmp_path / "s", wait_s=0.0) == code
    assert len(calls) == 1


def test_it_gives_up_after_so_many_deaths(control_plane, tmp_path, monkeypatch):
    monkeypatch.setattr(watchdog.time, "sleep", lambda seconds: None)
    calls = control_plane(*[(-9, "running")] * 50)
    assert watchdog.watch(tmp_path / "s", wait_s=0.0) == -9
    assert len(calls) == watchdog.MAX_RESTARTS + 1
