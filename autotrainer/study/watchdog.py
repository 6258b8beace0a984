"""The watchdog: keeps the control plane of a detached study alive; it never touches a job."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from autotrainer.study.view import StudyView

MAX_RESTARTS = 20
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 300.0
_CALM_S = 600.0
"""A control plane that lived so long starts the count anew."""
_WRONG_INPUT = 2


def detach(root: Path) -> int:
    """Start a watchdog that outlives this process and its terminal; its process id.

    What the control plane prints is in control.log of the study's folder.
    """
    with (root / "control.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "autotrainer", "watchdog", str(root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return process.pid


def watch(root: Path, *, wait_s: float = _FIRST_WAIT_S) -> int:
    """Run the control plane and start it again while the study is neither finished nor paused.

    Returns:
        The exit code of the last control plane. Wrong input (2) is not tried again.
    """
    restarts, wait = 0, wait_s
    while True:
        started = time.monotonic()
        code = subprocess.run(
            [sys.executable, "-m", "autotrainer", "resume", root.name, "--runs", str(root.parent)],
            check=False,
            stdin=subprocess.DEVNULL,
        ).returncode
        if StudyView.read(root).state in ("finished", "paused") or code == _WRONG_INPUT:
            return code
        if time.monotonic() - started > _CALM_S:
            restarts, wait = 0, wait_s
        restarts += 1
        if restarts > MAX_RESTARTS:
            return code
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT_S)
