import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from autotrainer.executors import launching
from autotrainer.executors.base import JobState, Resources
from autotrainer.executors.debug import DebugExecutor
from autotrainer.executors.local import LocalExecutor
from autotrainer.resources import tree
from autotrainer.testing.jobs import FINISHES, ended, is_alive, record, wait_until, write_job

CPU = Resources("cpu")


def grade():
    command = [sys.executable, "-m", "sandboxes.isolation", "probe"]
    done = subprocess.run(command, cwd=tree("sandboxes").parent, capture_output=True, check=True)
    return json.loads(done.stdout)


FOUND = grade()
needs_namespaces = pytest.mark.skipif(FOUND["grade"] != "A", reason=FOUND["reason"])
HEARS_TERM = """
import signal, sys, time
def on_term(*_):
    time.sleep(0.5)
    open('heard', 'w').close()
    sys.exit(5)
signal.signal(signal.SIGTERM, on_term)
open('started', 'w').close()
while True:
    time.sleep(60)
"""


@pytest.fixture
def vault(tmp_path):
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "test.jsonl").write_text("secret")
    return folder


def submitted(tmp_path, vault, script, executor=None, **changes):
    folder = write_job(tmp_path / "job", script, hide=[str(vault)], **changes)
    return (executor or LocalExecutor(slots=1)).submit("n001.1", folder, CPU)


@needs_namespaces
def test_a_job_with_something_to_hide_runs_without_it_and_without_network(tmp_path, vault):
    script = f"""
import os, socket
print(os.path.exists({str(vault / "test.jsonl")!r}), file=open("seen", "w"))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    print(error.strerror, file=open("seen", "a"))
"""
    job = submitted(tmp_path, vault, script + FINISHES)
    assert ended(job).status == "completed"
    assert record(job).isolation == "A"
    assert (tmp_path / "job" / "seen").read_text().splitlines() == ["False", "Network is unreachable"]
    assert (vault / "test.jsonl").read_text() == "secret"


@needs_namespaces
def test_an_isolated_job_has_its_grace_period_and_its_exit_code(tmp_path, vault):
    job = submitted(tmp_path, vault, HEARS_TERM)
    wait_until((tmp_path / "job" / "started").exists)
    job.cancel("enough")
    ended(job)
    assert (tmp_path / "job" / "heard").exists()
    assert (record(job).killed, record(job).exit_code) == ("cancelled", 5)


@needs_namespaces
def test_an_isolated_job_over_its_grace_period_is_killed_whole(tmp_path, vault):
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nimport time\ntime.sleep(60)\n"
    job = submitted(tmp_path, vault, script, executor=DebugExecutor(), wall_s=0.4, grace_s=0.3)
    assert job.state() is JobState.DONE
    assert record(job).killed == "wall"


@needs_namespaces
def test_the_signal_that_ended_an_isolated_job_is_told(tmp_path, vault):
    job = submitted(tmp_path, vault, "import os\nos.kill(os.getpid(), 9)\n")
    assert "ended by signal 9" in ended(job).reason


@needs_namespaces
def test_an_isolated_job_outlives_its_supervisor_and_can_be_cancelled(tmp_path, vault):
    job = submitted(tmp_path, vault, HEARS_TERM)
    wait_until((tmp_path / "job" / "started").exists)
    os.kill(record(job).pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(record(job).pid))
    assert job.state() is JobState.RUNNING
    job.cancel("enough")
    wait_until(lambda: job.state() is JobState.LOST)
    assert (tmp_path / "job" / "heard").exists()


def test_a_machine_without_bubblewrap_runs_the_job_and_says_so(tmp_path, vault, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    job = submitted(tmp_path, vault, FINISHES)
    assert ended(job).status == "completed"
    assert record(job).isolation == "C"
    assert "bwrap) is not installed" in (tmp_path / "job" / "supervisor.log").read_text()


def test_a_job_does_not_run_where_its_isolation_breaks(tmp_path, vault, monkeypatch):
    package = tmp_path / "installed" / "autotrainer" / "executors"
    package.mkdir(parents=True)
    shutil.copyfile(launching._SUPERVISOR, package / "supervisor.py")
    shutil.copytree(tree("sandboxes"), tmp_path / "installed" / "sandboxes")
    (tmp_path / "installed" / "sandboxes" / "isolation.py").write_text("raise SystemExit('it broke')")
    monkeypatch.setattr(launching, "_SUPERVISOR", package / "supervisor.py")
    job = submitted(tmp_path, vault, FINISHES)
    result = ended(job)
    assert result.status == "crashed"
    assert "its isolation failed: it broke" in result.reason
