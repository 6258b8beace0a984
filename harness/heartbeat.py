"""The job's sign of life, written by a thread every five seconds and at every change of phase."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.contract import SCHEMA_VERSION, write_json

EVERY_S = 5.0


def peak_memory_gib() -> float:
    """Peak resident memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


class Heartbeat:
    """Writes heartbeat.json while the context is open; the training thread sets `phase` and `step`."""

    def __init__(self, folder: Path, job_id: str, every_s: float = EVERY_S, writes: bool = True) -> None:
        """Nothing is written before the context is entered; of several processes only the main one writes."""
        self._writes = writes
        self._path, self._job_id, self._every_s = folder / "heartbeat.json", job_id, every_s
        self._phase, self._phase_started, self.step = "start", time.time(), 0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        """Write the first beat and start the thread."""
        if self._writes:
            self._write()
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the thread; the last beat stays."""
        self._stop.set()
        if self._writes:
            self._thread.join(timeout=2 * self._every_s)

    def enter(self, phase: str) -> str:
        """Change the phase and return the one before."""
        with self._lock:
            before, self._phase, self._phase_started = self._phase, phase, time.time()
        return before

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase for the length of a block; the one before it comes back."""
        before = self.enter(name)
        try:
            yield
        finally:
            self.enter(before)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            with suppress(OSError):
                self._write()

    def _write(self) -> None:
        with self._lock:
            phase, started = self._phase, self._phase_started
        write_json(
            self._path,
            {
                "schema_version": SCHEMA_VERSION,
                "job_id": self._job_id,
                "time": time.time(),
                "step": self.step,
                "phase": phase,
                "phase_started": started,
                "memory_gib": peak_memory_gib(),
            },
        )
