"""What isolation this machine can give, and a command wrapped in it.

`python isolation.py probe` prints {"grade", "reason"}; `python isolation.py wrap` reads {"argv", "hide", "writable", "network"} from standard
input and prints {"argv", "grade", "reason"}. Grades: A, namespaces (bubblewrap): the hidden folders are empty, everything but the
writable ones is read-only, no network but loopback unless asked for; C, none of this: only digests tell afterwards.

Covered at grade A: reading hidden folders, writing elsewhere, network. Not covered: CPU and memory use, reading the rest of the disk,
kernel bugs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Isolation:
    """A grade and why it is no better (empty for A)."""

    grade: str
    reason: str


@lru_cache(maxsize=1)
def probe() -> Isolation:
    """What works here: bubblewrap is tried, not only looked for."""
    program = shutil.which("bwrap")
    if program is None:
        return Isolation("C", "bubblewrap (bwrap) is not installed")
    try:
        tried = subprocess.run(
            wrapped(["true"], hide=(), writable=(), network=False), capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Isolation("C", f"bubblewrap does not run: {error}")
    if tried.returncode:
        return Isolation("C", f"bubblewrap does not work here: {tried.stderr.decode('utf-8', 'replace').strip()[:200]}")
    return Isolation("A", "")


def wrapped(argv: Sequence[str], *, hide: Sequence[str], writable: Sequence[str], network: bool) -> list[str]:
    """The command inside bubblewrap; later mounts win, so hidden folders stay hidden inside writable ones."""
    command = ["bwrap", "--unshare-user-try", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev",
               "--bind-try", "/dev/shm", "/dev/shm"]
    if not network:
        command.append("--unshare-net")
    for folder in writable:
        if os.path.isdir(folder):
            command += ["--bind", folder, folder]
    for folder in hide:
        if os.path.isdir(folder):
            command += ["--tmpfs", folder]
    return [*command, "--", *argv]


def wrap(argv: Sequence[str], *, hide: Sequence[str], writable: Sequence[str], network: bool) -> tuple[list[str], Isolation]:
    """The command in the best isolation there is, and that isolation."""
    found = probe()
    if found.grade != "A":
        return list(argv), found
    return wrapped(argv, hide=hide, writable=writable, network=network), found


def main(arguments: Sequence[str]) -> int:
    """The command line; 2 for wrong usage."""
    if list(arguments) == ["probe"]:
        found = probe()
        sys.stdout.write(json.dumps({"grade": found.grade, "reason": found.reason}) + "\n")
        return 0
    if list(arguments) == ["wrap"]:
        request = json.load(sys.stdin)
        argv, found = wrap(
            request["argv"], hide=request["hide"], writable=request["writable"], network=request["network"]
        )
        sys.stdout.write(json.dumps({"argv": argv, "grade": found.grade, "reason": found.reason}) + "\n")
        return 0
    sys.stderr.write("usage: isolation.py probe|wrap\n")
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
