"""Run a command under a watchdog: wall time, memory of the whole tree, output; killed as a group."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sandboxes.program import Ending, Limits, Outcome, SandboxError

POLL_S = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE")


def run_watched(
    argv: Sequence[str],
    *,
    stdin: bytes,
    limits: Limits,
    env: dict[str, str],
    cwd: str | None = None,
    stop: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run argv in a process group of its own until it ends or breaks a limit; `stop` helps to end it.

    Raises:
        SandboxError: it cannot be started.
    """
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"{argv[0]} cannot be started: {error}") from error
    try:
        ending, out, err = _watch(process, stdin, limits, started)
    finally:
        _kill(process, stop)
    return Outcome(ending, process.returncode, out, err, time.monotonic() - started)


def _watch(
    process: subprocess.Popen[bytes], stdin: bytes, limits: Limits, started: float
) -> tuple[Ending, bytes, bytes]:
    assert process.stdin
    assert process.stdout
    assert process.stderr
    chunks: dict[int, bytearray] = {
        process.stdout.fileno(): bytearray(),
        process.stderr.fileno(): bytearray(),
    }
    order = list(chunks)
    rest, ending, looked = memoryview(stdin), Ending.EXITED, 0.0
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream.fileno(), selectors.EVENT_READ)
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin.fileno(), selectors.EVENT_WRITE)
        while True:
            for key, _ in selector.select(POLL_S):
                if key.fd == process.stdin.fileno():
                    rest = _feed(process, selector, rest)
                elif not (data := _read(key.fd)):
                    selector.unregister(key.fd)
                else:
                    chunks[key.fd] += data
            now = time.monotonic()
            if max(map(len, chunks.values())) > limits.output_bytes:
                ending = Ending.OUTPUT
            elif now - started > limits.wall_s:
                ending = Ending.WALL
            elif now - looked > POLL_S:
                looked = now
                if tree_bytes(process.pid) > limits.memory_mib * 2**20:
                    ending = Ending.MEMORY
            if ending is not Ending.EXITED or process.poll() is not None:
                break
        for descriptor in order:  # what a child that outlives its parent writes is not waited for
            with suppress(BlockingIOError):
                chunks[descriptor] += os.read(descriptor, limits.output_bytes)
    out, err = (bytes(chunks[descriptor][: limits.output_bytes]) for descriptor in order)
    return ending, out, err


def _feed(process: subprocess.Popen[bytes], selector: selectors.BaseSelector, rest: memoryview) -> memoryview:
    assert process.stdin
    try:
        rest = rest[os.write(process.stdin.fileno(), rest[:65_536]) :] if rest else rest
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        rest = rest[:0]
    if not rest:
        selector.unregister(process.stdin.fileno())
        with suppress(BrokenPipeError):
            process.stdin.close()
        # The descriptor's number may be used again at once: the loop asks for it by this object no more.
        process.stdin = open(os.devnull, "wb", buffering=0)  # noqa: SIM115 - closed by _kill
    return rest


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except BlockingIOError:
        return b" "


def _kill(process: subprocess.Popen[bytes], stop: Callable[[], None]) -> None:
    stop()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def tree_bytes(root: int) -> int:
    """Resident bytes of a process and all its descendants; those that end meanwhile count as nothing."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, ())
        with suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return total
