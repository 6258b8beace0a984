"""Small real jobs for tests: a Python script with a launch.json in a folder of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotrainer.contract.models import JobResult, LaunchSpec, SupervisorRecord
from autotrainer.executors.base import Job, JobState
from autotrainer.executors.supervisor import creation_time

WAIT_S = 20.0

FINISHES = """
import json, os
json.dump({
    "schema_version": 1, "job_id": "n001.1", "status": "completed", "reason": "all steps done", "steps": 3,
}, open("aside", "w"))
os.rename("aside", "result.json")
"""
"""A job that leaves a result.json by itself."""

SLEEPS = "import time\nopen('started', 'w').close()\ntime.sleep(60)\n"
"""A job that would last a minute; the file `started` tells that it runs."""


def write_job(directory: Path, script: str, *, job_id: str = "n001.1", **changes: Any) -> Path:
    """Write the script and its launch.json; the script runs in `directory`. Returns the folder."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "job.py").write_text(script, encoding="utf-8")
    argv = [sys.executable, "-I", "-S", str(directory / "job.py")]
    settings: dict[str, Any] = {"wall_s": 60.0, "heartbeat_stale_s": 60.0, "grace_s": 5.0, "env": {}}
    LaunchSpec(
        **{"job_id": job_id, "argv": argv, "cwd": str(directory), **settings, **changes},
    ).write(directory / "launch.json")
    return directory


def wait_until(condition: Callable[[], object], limit_s: float = WAIT_S) -> None:
    """Wait for a condition to hold.

    Raises:
        TimeoutError: it does not hold within `limit_s` seconds.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not happen within {limit_s:g} s")
        time.sleep(0.01)


def ended(job: Job) -> JobResult:
    """Wait for a job to end, and read its result."""
    wait_until(lambda: job.state() is not JobState.RUNNING)
    return JobResult.read(job.directory / "result.json")


def record(job: Job) -> SupervisorRecord:
    """A job's supervisor.json."""
    return SupervisorRecord.read(job.directory / "supervisor.json")


def job_pid(job: Job) -> int:
    """The process of a job that runs; its supervisor may need a moment to write it down."""
    wait_until(lambda: record(job).job_pid is not None)
    found = record(job).job_pid
    assert found is not None
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    return creation_time(pid) is not None
