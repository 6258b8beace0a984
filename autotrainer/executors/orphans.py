"""The processes of a job whose supervisor was killed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from autotrainer.executors.supervisor import descendants


def signal_holders(lock: Path, number: signal.Signals) -> None:
    """Signal the processes that hold a job's lock, and those below them.

    Who holds the lock has inherited it from the supervisor. Recorded pids would not do: the job can write
    to its folder, and with it choose whom we kill.
    """
    for holder in list(lock_holders(lock)):
        for pid in (*descendants(holder), holder):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def lock_holders(lock: Path) -> Iterator[int]:
    """The processes through one of whose descriptors the file is locked exclusively."""
    try:
        wanted = lock.stat()
    except OSError:
        return
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _holds(Path("/proc", name), wanted):
            yield int(name)


def _holds(process: Path, wanted: os.stat_result) -> bool:
    # A process may end, or close a descriptor, while we look.
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(process / "fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(process / "fd" / descriptor), wanted):
                    facts = (process / "fdinfo" / descriptor).read_text(encoding="ascii")
                    if "FLOCK" in facts and "WRITE" in facts:
                        return True
    return False
