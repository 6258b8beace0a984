"""What isolation this machine can give, and a command wrapped in it.

`python -m sandboxes.isolation probe` prints `{"grade", "reason"}`. `python -m sandboxes.isolation wrap`
reads a request `{"argv", "hide", "writable", "network"}` from standard input and prints `{"argv",
"grade", "reason"}`.

Covered at grade A: reading hidden paths (also through /proc, a disk's device or namespaces of the
command's own), writing elsewhere, the network, signals to other processes, services that listen in /run.
Not covered: CPU and memory use, reading the rest of the disk, sockets elsewhere on the disk, bugs of the
kernel.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from sandboxes.api import Grade, Isolation, Request

PROGRAM = "bwrap"
TRY_LIMIT_S = 10.0
ACCELERATORS = ("/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/infiniband")
"""Devices that a job may use beside null, zero, random and the like; disks are none."""
SERVICES = "/run"
"""Where a machine's services listen; some of them would run a command for us outside."""


class Variant(NamedTuple):
    """Which namespaces the command has of its own beside network, IPC and host name, and what is lacking."""

    users: bool
    processes: bool
    lacks: str


VARIANTS = (
    Variant(True, True, ""),
    Variant(False, True, "no user namespace of its own"),
    Variant(True, False, "the process table is shared"),
)
"""What is tried, best first. With neither, /proc/<pid>/root of another process would lead around `hide`."""


@lru_cache(maxsize=1)
def probe() -> Isolation:
    """What works here: bubblewrap is tried, not only looked for."""
    return _best()[1]


def wrap(
    argv: Sequence[str], *, hide: Sequence[str] = (), writable: Sequence[str] = (), network: bool = False
) -> tuple[list[str], Isolation]:
    """The command in the best isolation there is, and that isolation; at grade C the command as it was.

    Raises:
        ValueError: the command is empty or a path is not absolute.
    """
    request = Request(tuple(argv), tuple(hide), tuple(writable), network)
    variant, found = _best()
    return (list(argv) if variant is None else command(request, variant)), found


@lru_cache(maxsize=1)
def _best() -> tuple[Variant | None, Isolation]:
    if shutil.which(PROGRAM) is None:
        return None, Isolation(Grade.C, f"bubblewrap ({PROGRAM}) is not installed")
    complaints: list[str] = []
    for variant in VARIANTS:
        complaint = _try(variant)
        if complaint is None:
            return variant, Isolation(Grade.A, variant.lacks)
        complaints.append(complaint)
    return None, Isolation(Grade.C, f"bubblewrap does not work here: {complaints[0]}")


def _try(variant: Variant) -> str | None:
    """What bubblewrap complains about with these options; None where it works."""
    argv = command(Request(("true",)), variant)
    try:
        done = subprocess.run(argv, capture_output=True, timeout=TRY_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return done.stderr.decode("utf-8", "replace").strip()[:200] or f"exit code {done.returncode}"


def command(request: Request, variant: Variant) -> list[str]:
    """The request as a command line of bubblewrap.

    The command lives on where its parent dies, and holds no capability, so that it cannot undo a mount.
    """
    line = [shutil.which(PROGRAM) or PROGRAM, "--cap-drop", "ALL", "--unshare-ipc", "--unshare-uts"]
    if variant.users:
        line.append("--unshare-user")
    if variant.processes:
        line.append("--unshare-pid")
    if not request.network:
        line.append("--unshare-net")
    line += ["--ro-bind", "/", "/", "--dev", "/dev", *_accelerators()]
    if variant.processes:
        line += ["--proc", "/proc"]
    return [*line, *_mounts(request), "--", *request.argv]


def _accelerators() -> Iterator[str]:
    for pattern in ACCELERATORS:
        for path in sorted(glob.glob(pattern)):
            yield from ("--dev-bind", path, path)


def _mounts(request: Request) -> Iterator[str]:
    """Outer paths before inner ones; read-only last, once the mount points inside hidden folders are made."""
    writable = _resolved(request.writable)
    hidden = _resolved(request.hide)
    if not request.network and os.path.isdir(SERVICES) and not _lies_in_services(request):
        hidden.add(os.path.realpath(SERVICES))
    emptied: list[str] = []
    for path in sorted(writable | hidden, key=lambda path: (path.count("/") if path != "/" else 0, path)):
        if path not in hidden:
            yield from ("--bind", path, path)
        elif os.path.isdir(path):
            emptied.append(path)
            yield from ("--tmpfs", path)
        else:
            yield from ("--ro-bind", "/dev/null", path)
    for path in emptied:
        yield from ("--remount-ro", path)


def _resolved(paths: Iterable[str]) -> set[str]:
    return {os.path.realpath(path) for path in paths if os.path.exists(path)}


def _lies_in_services(request: Request) -> bool:
    """Whether what the command works on is itself in /run, as in a home of a short-lived machine."""
    own = [os.getcwd(), *request.writable, *(part for part in request.argv if part.startswith("/"))]
    prefix = os.path.realpath(SERVICES) + "/"
    return any(os.path.realpath(path).startswith(prefix) for path in own)


def main(arguments: Sequence[str]) -> int:
    """The command line; 2 for wrong usage or a wrong request."""
    if list(arguments) == ["probe"]:
        return _answer(probe())
    if list(arguments) == ["wrap"]:
        try:
            request = Request.from_json(json.load(sys.stdin))
        except ValueError as error:
            sys.stderr.write(f"the request is wrong: {error}\n")
            return 2
        argv, found = wrap(
            request.argv, hide=request.hide, writable=request.writable, network=request.network
        )
        return _answer(found, argv=argv)
    sys.stderr.write("usage: python -m sandboxes.isolation probe|wrap\n")
    return 2


def _answer(found: Isolation, **more: object) -> int:
    sys.stdout.write(json.dumps({"grade": str(found.grade), "reason": found.reason, **more}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
