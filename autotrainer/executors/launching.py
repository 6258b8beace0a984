"""From a folder with launch.json to a supervisor that runs it: what executors on this machine share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autotrainer.contract.models import LaunchSpec
from autotrainer.errors import ExecutorError

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_PASSED_ON = ("PATH", "LANG")
"""All that a supervisor gets of our environment: it outlives us and a job may be able to read it."""


def read_launch(job_id: str, directory: Path) -> LaunchSpec:
    """A job's launch.json.

    Raises:
        ExecutorError: there is none, or it names another job.
        ContractError: it is malformed.
    """
    path = directory / "launch.json"
    try:
        launch = LaunchSpec.read(path)
    except FileNotFoundError:
        raise ExecutorError(f"job {job_id}: there is no {path}") from None
    if launch.job_id != job_id:
        raise ExecutorError(f"job {job_id}: {path} is for job {launch.job_id}")
    return launch


def give_devices(launch: LaunchSpec, directory: Path, devices: Sequence[int]) -> None:
    """Write into launch.json which devices the job has; it sees no other."""
    env = {**launch.env, "CUDA_VISIBLE_DEVICES": ",".join(str(device) for device in devices)}
    launch.model_copy(update={"devices": list(devices), "env": env}).write(directory / "launch.json")


def start_supervisor(directory: Path, *, foreground: bool = False) -> None:
    """Start a folder's supervisor; with `foreground` return when the job has ended, else at once.

    An interrupt while it is in the foreground cancels the job, and goes on once that has ended.

    Raises:
        ExecutorError: it could not be started.
    """
    options = ["--foreground"] if foreground else []
    command = [sys.executable, "-I", "-S", str(_SUPERVISOR), *options, str(directory.absolute())]
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    with (directory / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment
        )
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code:
        raise ExecutorError(f"the supervisor ended with exit code {code}; see {directory / 'supervisor.log'}")
