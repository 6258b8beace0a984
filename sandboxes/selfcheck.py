"""The shipped self-check: every attack against a backend: `python -m sandboxes.selfcheck [BACKEND]`."""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandboxes.attacks import ATTACKS, Attack
from sandboxes.backends import Backend, backend
from sandboxes.program import Limits, Program, SandboxError

LIMITS = Limits(wall_s=6.0, cpu_s=2, memory_mib=512, processes=24, file_mib=16, output_bytes=65_536)
SECRET = "SECRET-TOKEN"
TRACE = "47.125"


@dataclass(frozen=True, slots=True)
class Place:
    """What attacks aim at on this machine."""

    secret: Path
    marker: Path
    port: int


@contextmanager
def targets() -> Iterator[Place]:
    """A secret file, a place to plant a marker, a listening port and an abstract socket of this process."""
    with tempfile.TemporaryDirectory(prefix="sandbox-check-") as folder:
        os.chmod(folder, 0o777)
        secret = Path(folder) / "secret"
        secret.write_text(SECRET)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
            port = server.getsockname()[1]
            abstract.bind(f"\0autotrainer-check-{port}")
            abstract.listen()
            yield Place(secret, Path(folder) / "marker", port)


def try_attack(attack: Attack, sandbox: Backend, place: Place) -> str | None:
    """What the attack achieved; None where it failed."""
    source = attack.source
    for key, value in (
        ("{secret}", place.secret),
        ("{marker}", place.marker),
        ("{port}", place.port),
        ("{pid}", os.getpid()),
    ):
        source = source.replace(key, str(value))
    started = time.monotonic()
    outcome = sandbox.run(Program((sys.executable, "-c", source)), LIMITS)
    took = time.monotonic() - started
    if b"ESCAPED" in outcome.stdout:
        return "it got through"
    if place.marker.exists():
        place.marker.unlink()
        return "it wrote outside"
    if took > LIMITS.wall_s + 4.0:
        return f"it ran {took:.1f} s, {LIMITS.wall_s:g} are allowed"
    if max(len(outcome.stdout), len(outcome.stderr)) > LIMITS.output_bytes:
        return "it wrote more than it may"
    return None


def survivors() -> list[int]:
    """Processes of attacks that are still there."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"time.sleep(" + TRACE.encode() in command and b"import os" in command:
                found.append(int(entry.name))
    return found


def check(name: str = "auto", *, at_once: int = 2) -> dict[str, Any]:
    """Run every attack: `{backend, attacks, failed: {attack: what it achieved}, overhead_ms}`.

    Raises:
        SandboxError: the backend does not work here.
    """
    sandbox = backend(name)
    os.environ.setdefault("SANDBOX_CHECK_TOKEN", SECRET)
    lock = threading.Lock()
    achieved: dict[str, str] = {}
    with targets() as place, ThreadPoolExecutor(at_once) as pool:

        def one(attack: Attack) -> None:
            result = try_attack(attack, sandbox, place)
            if result is not None:
                with lock:
                    achieved[attack.name] = result

        list(pool.map(one, ATTACKS))
    time.sleep(0.2)
    if left := survivors():
        achieved["processes that outlive the sandbox"] = f"{len(left)} are left"
    times = [_run_nothing(sandbox) for _ in range(10)]
    return {
        "backend": sandbox.name,
        "attacks": len(ATTACKS),
        "failed": achieved,
        "overhead_ms": {
            "median": statistics.median(times),
            "low": min(times),
            "high": max(times),
            "n": len(times),
        },
    }


def _run_nothing(sandbox: Backend) -> float:
    """Milliseconds that an empty program takes."""
    started = time.monotonic()
    sandbox.run(Program((sys.executable, "-I", "-S", "-c", "")), LIMITS)
    return 1000 * (time.monotonic() - started)


def main(arguments: list[str]) -> int:
    """Exit code 0 where every attack failed, 1 where one got through, 3 where there is no sandbox."""
    if len(arguments) > 1:
        sys.stderr.write("usage: python -m sandboxes.selfcheck [BACKEND]\n")
        return 2
    try:
        result = check(arguments[0] if arguments else "auto")
    except SandboxError as error:
        sys.stdout.write(json.dumps({"backend": None, "error": str(error)}) + "\n")
        return 3
    sys.stdout.write(json.dumps(result) + "\n")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
