"""What every executor has to keep, as classes of tests to inherit.

```python
class TestMyExecutor(BackgroundExecutorConformance):
    @pytest.fixture
    def executor(self) -> Executor:
        return MyExecutor(slots=2)
```

`ExecutorConformance` alone is for one whose `submit` returns when the job has ended.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from autotrainer.errors import ContractError, ExecutorError
from autotrainer.executors.base import Executor, JobState, Resources
from autotrainer.testing.jobs import FINISHES, SLEEPS, ended, is_alive, job_pid, record, wait_until, write_job

CPU = Resources("cpu")
WEIRD = ("a'; echo foo", "two  spaces", "line\nbreak", "-rf", "$HOME `id`", "日本")
"""Names of folders that no shell, option parser or encoding may stumble over."""
_STATUS_FROM_ENVIRONMENT = """
import json, os
json.dump(dict(os.environ), open("seen.json", "w"))
"""
_TERM_IS_HEARD = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open('heard', 'w').close(), sys.exit(0)))
open('started', 'w').close()
time.sleep(60)
"""
_TERM_IS_IGNORED = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPS
_HAS_GRANDCHILD = """
import os, subprocess, sys, time
child = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(60)"
parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-I', '-S', '-c', {child!r}])"
below = subprocess.Popen([sys.executable, "-I", "-S", "-c", parent], stdout=subprocess.PIPE)
with open("aside", "wb") as stream:
    stream.write(below.stdout.readline())
os.rename("aside", "grandchild")
time.sleep(60)
"""


class ExecutorConformance:
    """Promises that hold wherever a job runs. Inherit, and give a fixture `executor`."""

    def test_a_job_that_ends_by_itself_is_done_with_its_own_result(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        """Its result.json is left alone."""
        before = time.time()
        job = executor.submit("n001.1", write_job(tmp_path, FINISHES), CPU)
        result = ended(job)
        assert (job.state(), result.status, result.written_by) == (JobState.DONE, "completed", "run")
        assert (record(job).exit_code, record(job).killed) == (0, None)
        usage = job.usage()
        assert usage is not None
        assert usage.ended is not None
        assert before - 1 <= usage.started <= usage.ended <= time.time()
        assert usage.device_seconds == pytest.approx(usage.ended - usage.started)

    def test_a_job_that_fails_without_a_result_gets_one_that_says_why(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        """The reason has the exit code and the last line of the output."""
        script = "print('some output')\nraise KeyError('no such knob')\n"
        job = executor.submit("n001.1", write_job(tmp_path, script), CPU)
        result = ended(job)
        assert (result.job_id, result.status, result.written_by) == ("n001.1", "crashed", "supervisor")
        assert "exit code 1" in result.reason
        assert "KeyError: 'no such knob'" in result.reason
        assert record(job).exit_code == 1

    def test_a_program_that_is_not_there_is_a_crashed_job(self, executor: Executor, tmp_path: Path) -> None:
        """Starting fails in the job, not in `submit`."""
        job = executor.submit("n001.1", write_job(tmp_path, "", argv=["/nowhere/python"]), CPU)
        result = ended(job)
        assert result.status == "crashed"
        assert "/nowhere/python" in result.reason

    def test_a_job_over_its_wall_limit_is_ended(self, executor: Executor, tmp_path: Path) -> None:
        """The record says that the wall limit did it."""
        job = executor.submit("n001.1", write_job(tmp_path, SLEEPS, wall_s=0.3), CPU)
        result = ended(job)
        assert (result.status, record(job).killed) == ("crashed", "wall")
        assert "wall limit" in result.reason

    def test_a_job_that_ignores_term_is_killed_after_its_grace_period(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        """TERM first, KILL then."""
        directory = write_job(tmp_path, _TERM_IS_IGNORED, wall_s=0.3, grace_s=0.3)
        job = executor.submit("n001.1", directory, CPU)
        ended(job)
        assert record(job).exit_code == -signal.SIGKILL
        assert (tmp_path / "started").exists()

    def test_the_environment_is_the_one_that_was_asked_for(self, executor: Executor, tmp_path: Path) -> None:
        """Nothing of ours leaks in."""
        directory = write_job(tmp_path, _STATUS_FROM_ENVIRONMENT, env={"ASKED": "yes"})
        ended(executor.submit("n001.1", directory, CPU))
        seen = (tmp_path / "seen.json").read_text(encoding="utf-8")
        assert '"ASKED": "yes"' in seen
        assert "PATH" not in seen

    @pytest.mark.parametrize("name", WEIRD)
    def test_any_folder_name_will_do(self, executor: Executor, tmp_path: Path, name: str) -> None:
        """Paths are handed over as they are."""
        job = executor.submit("n001.1", write_job(tmp_path / name, FINISHES), CPU)
        assert ended(job).status == "completed"
        assert sorted(path.name for path in tmp_path.iterdir()) == [name]

    def test_a_job_that_ended_is_not_started_again(self, executor: Executor, tmp_path: Path) -> None:
        """A second `submit` attaches, and leaves no trace."""
        directory = write_job(tmp_path, "open('runs', 'a').write('x')\n")
        first = executor.submit("n001.1", directory, CPU)
        result = ended(first)
        again = executor.submit("n001.1", directory, CPU)
        assert again.state() is JobState.DONE
        assert ended(again) == result
        assert (tmp_path / "runs").read_text(encoding="utf-8") == "x"

    def test_a_folder_that_was_never_submitted_is_pending(self, executor: Executor, tmp_path: Path) -> None:
        """To attach starts nothing."""
        job = executor.attach("n001.1", write_job(tmp_path, FINISHES))
        assert (job.state(), job.usage()) == (JobState.PENDING, None)
        job.cancel("no reason")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["job.py", "launch.json"]

    def test_a_missing_or_foreign_launch_file_is_an_error(self, executor: Executor, tmp_path: Path) -> None:
        """So is one that is malformed; nothing is started."""
        with pytest.raises(ExecutorError, match=r"no .*launch\.json"):
            executor.submit("n001.1", tmp_path, CPU)
        write_job(tmp_path, FINISHES, job_id="n002.1")
        with pytest.raises(ExecutorError, match=r"for job n002\.1"):
            executor.submit("n001.1", tmp_path, CPU)
        (tmp_path / "launch.json").write_text("{", encoding="utf-8")
        with pytest.raises(ContractError):
            executor.submit("n001.1", tmp_path, CPU)
        assert not (tmp_path / "supervisor.json").exists()


class BackgroundExecutorConformance(ExecutorConformance):
    """Promises of an executor whose `submit` returns while the job runs."""

    def test_submit_returns_while_the_job_runs(self, executor: Executor, tmp_path: Path) -> None:
        """Usage grows meanwhile."""
        job = executor.submit("n001.1", write_job(tmp_path, SLEEPS), CPU)
        assert job.state() is JobState.RUNNING
        usage = job.usage()
        assert usage is not None
        assert usage.ended is None
        job.cancel("enough")
        assert ended(job).status == "crashed"

    def test_a_job_that_hears_term_may_finish(self, executor: Executor, tmp_path: Path) -> None:
        """Cancelling returns at once, and the job has its grace period."""
        job = executor.submit("n001.1", write_job(tmp_path, _TERM_IS_HEARD), CPU)
        wait_until((tmp_path / "started").exists)
        before = time.monotonic()
        job.cancel("the deadline has passed")
        assert time.monotonic() - before < 0.5
        result = ended(job)
        assert (tmp_path / "heard").exists()
        assert (record(job).killed, record(job).exit_code) == ("cancelled", 0)
        assert "the deadline has passed" in result.reason

    def test_cancel_ends_grandchildren_in_sessions_of_their_own(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        """Leaving the process group does not help."""
        job = executor.submit("n001.1", write_job(tmp_path, _HAS_GRANDCHILD), CPU)
        wait_until((tmp_path / "grandchild").exists)
        grandchild = int((tmp_path / "grandchild").read_text(encoding="utf-8"))
        assert is_alive(grandchild)
        job.cancel("enough")
        ended(job)
        assert not is_alive(grandchild)

    def test_a_job_killed_from_outside_is_crashed(self, executor: Executor, tmp_path: Path) -> None:
        """The reason names the signal."""
        job = executor.submit("n001.1", write_job(tmp_path, SLEEPS), CPU)
        wait_until((tmp_path / "started").exists)
        os.kill(job_pid(job), signal.SIGKILL)
        result = ended(job)
        assert (result.status, record(job).killed, job.state()) == ("crashed", None, JobState.DONE)
        assert "signal 9" in result.reason

    def test_another_attach_sees_and_ends_the_same_job(self, executor: Executor, tmp_path: Path) -> None:
        """All state is in the folder."""
        executor.submit("n001.1", write_job(tmp_path, SLEEPS), CPU)
        other = executor.attach("n001.1", tmp_path)
        assert other.state() is JobState.RUNNING
        other.cancel("enough")
        ended(other)
        assert record(other).killed == "cancelled"
