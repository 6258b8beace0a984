import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from autotrainer.errors import ExecutorError
from autotrainer.executors import launching, supervisor
from autotrainer.executors.base import JobState, Resources
from autotrainer.executors.folder_job import FolderJob
from autotrainer.executors.local import LocalExecutor
from autotrainer.executors.orphans import lock_holders
from autotrainer.files import read_json, write_json
from autotrainer.testing.jobs import FINISHES, SLEEPS, ended, is_alive, job_pid, record, wait_until, write_job

CPU = Resources("cpu")
WAITS_FOR_GO = f"""
import os, time
open('started', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.01)
{FINISHES}
"""
SUBMITS = """
import sys
from pathlib import Path
from autotrainer.executors.base import Resources
from autotrainer.executors.local import LocalExecutor
executor = LocalExecutor(slots=1)
sys.stdin.readline()
for number in range(10):
    executor.submit("n001.1", Path(sys.argv[1], str(number)), Resources("cpu"))
"""


def submitted(tmp_path, script, **changes):
    job = LocalExecutor(slots=1).submit("n001.1", write_job(tmp_path, script, **changes), CPU)
    wait_until((tmp_path / "started").exists)
    return job


def supervise(folder):
    return subprocess.Popen([sys.executable, "-I", "-S", supervisor.__file__, "--foreground", str(folder)])


def kill_supervisor(job):
    os.kill(record(job).pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(record(job).pid))


def test_two_control_planes_that_submit_at_once_start_every_job_once(tmp_path):
    for number in range(10):
        write_job(tmp_path / str(number), "open('runs', 'a').write('x')\nimport time\ntime.sleep(0.05)\n")
    command = [sys.executable, "-c", SUBMITS, str(tmp_path)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for process in both:
        process.stdin.write(b"go\n")
        process.stdin.close()
    assert [process.wait(60) for process in both] == [0, 0]
    jobs = [FolderJob("n001.1", tmp_path / str(number)) for number in range(10)]
    assert {ended(job).status for job in jobs} == {"crashed"}
    assert [(job.directory / "runs").read_text() for job in jobs] == ["x"] * 10


def test_a_supervisor_killed_before_its_record_leaves_a_job_that_can_be_started(tmp_path):
    write_job(tmp_path, FINISHES)
    (tmp_path / "lock").write_text("")
    job = LocalExecutor(slots=1).attach("n001.1", tmp_path)
    assert job.state() is JobState.PENDING
    assert ended(LocalExecutor(slots=1).submit("n001.1", tmp_path, CPU)).status == "completed"


def test_looking_at_a_job_while_it_starts_does_not_keep_it_from_starting(tmp_path):
    write_job(tmp_path, FINISHES)
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        process = supervise(tmp_path)
        time.sleep(0.5)
        assert not (tmp_path / "supervisor.json").exists()
    assert process.wait(20) == 0
    assert ended(FolderJob("n001.1", tmp_path)).status == "completed"


def test_of_many_supervisors_of_one_folder_now_and_later_one_runs_the_job(tmp_path):
    write_job(tmp_path, "open('runs', 'a').write('x')\nimport time\ntime.sleep(0.1)\n")
    processes = [supervise(tmp_path) for _ in range(6)]
    assert [process.wait(20) for process in processes] == [0] * 6
    before = (tmp_path / "supervisor.json").read_text()
    assert supervise(tmp_path).wait(20) == 0
    assert (tmp_path / "runs").read_text() == "x"
    assert (tmp_path / "supervisor.json").read_text() == before


def test_a_job_outlives_its_supervisor_and_is_done_when_it_ends(tmp_path):
    job = submitted(tmp_path, WAITS_FOR_GO)
    kill_supervisor(job)
    assert job.state() is JobState.RUNNING
    assert LocalExecutor(slots=1).submit("n001.1", tmp_path, CPU).state() is JobState.RUNNING
    (tmp_path / "go").touch()
    assert ended(job).status == "completed"
    usage = job.usage()
    assert job.state() is JobState.DONE
    assert usage.ended == pytest.approx((tmp_path / "result.json").stat().st_mtime)


def test_a_job_that_dies_with_its_supervisor_is_lost_at_its_last_sign_of_life(tmp_path):
    job = submitted(tmp_path, SLEEPS)
    (tmp_path / "metrics.jsonl").write_text("")
    os.utime(tmp_path / "metrics.jsonl", (time.time() + 5, time.time() + 5))
    pid = job_pid(job)
    kill_supervisor(job)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: job.state() is JobState.LOST)
    assert job.usage().ended == pytest.approx(time.time() + 5, abs=1)


def test_cancel_reaches_a_job_without_a_supervisor(tmp_path):
    job = submitted(tmp_path, SLEEPS)
    kill_supervisor(job)
    job.cancel("enough")
    wait_until(lambda: job.state() is not JobState.RUNNING)
    assert job.state() is JobState.LOST


def test_a_second_cancel_kills_a_job_without_a_supervisor_that_ignores_the_first(tmp_path):
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPS
    job = submitted(tmp_path, script, grace_s=0.2)
    kill_supervisor(job)
    job.cancel("enough")
    job.cancel("enough")
    time.sleep(0.3)
    assert job.state() is JobState.RUNNING
    job.cancel("enough")
    wait_until(lambda: job.state() is JobState.LOST)


def test_cancel_signals_nobody_but_the_job_whatever_its_folder_says(tmp_path):
    job = submitted(tmp_path, SLEEPS)
    pid = job_pid(job)
    kill_supervisor(job)
    looks = "held = open('lock')\nprint(flush=True)\n" + SLEEPS
    bystander = subprocess.Popen([sys.executable, "-c", looks], cwd=tmp_path, stdout=subprocess.PIPE)
    bystander.stdout.readline()
    forged = {**read_json(tmp_path / "supervisor.json"), "job_pid": bystander.pid, "pid": bystander.pid}
    write_json(tmp_path / "supervisor.json", forged)
    assert list(lock_holders(tmp_path / "lock")) == [pid]
    job.cancel("enough")
    wait_until(lambda: job.state() is JobState.LOST)
    assert bystander.poll() is None
    bystander.kill()
    bystander.communicate()


def test_sigterm_to_the_supervisor_cancels_the_job(tmp_path):
    job = submitted(tmp_path, SLEEPS)
    os.kill(record(job).pid, signal.SIGTERM)
    assert ended(job).status == "crashed"
    assert record(job).killed == "cancelled"


def test_a_supervisor_that_cannot_be_started_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "_SUPERVISOR", tmp_path / "missing.py")
    with pytest.raises(ExecutorError, match="exit code 2; see"):
        LocalExecutor(slots=1).submit("n001.1", write_job(tmp_path, FINISHES), CPU)
