"""Journal: the append-only, fsynced log of a study; the only truth about it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autotrainer.errors import JournalError
from autotrainer.files import dumps, read_jsonl
from autotrainer.tree.bulk import without_collection
from autotrainer.tree.event import Event


class Journal:
    """An append-only file of events with one writer (the holder of the study's control.lock).

    `append` returns after fsync. Opening repairs at most one torn last line, which is what a crash in
    `append` can leave; anything else that is malformed is an error.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, read_only: bool = False
    ) -> None:
        """Read the file, if it is there; unless read-only, cut a last line without its newline off first."""
        self.path = path
        self._clock = clock
        self._read_only = read_only
        if not read_only and path.exists():
            self._cut_torn_line()
        with without_collection():
            self._events = [Event.from_json(row) for row in read_jsonl(path)]
        for place, event in enumerate(self._events):
            if event.seq != place:
                raise JournalError(f"{path}: line {place + 1} has seq {event.seq}, expected {place}")

    def __len__(self) -> int:
        """Number of events."""
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        """The events in order."""
        return iter(self._events)

    def since(self, position: int) -> list[Event]:
        """The events from a position on."""
        return self._events[position:]

    def append(
        self, kind: str, data: Mapping[str, Any], *, check: Callable[[Event], None] | None = None
    ) -> Event:
        """Write one event durably and return it.

        `check` sees the event first; where it raises, nothing is written.

        Raises:
            JournalError: the journal is read-only.
        """
        if self._read_only:
            raise JournalError(f"{self.path} was opened to be read only")
        event = Event(len(self._events), self._clock(), kind, data)
        Event.from_json(event.to_json())
        if check is not None:
            check(event)
        line = dumps(event.to_json()) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode("utf-8"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._events.append(event)
        return event

    def _cut_torn_line(self) -> None:
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end != len(content):
            with self.path.open("r+b") as stream:
                stream.truncate(end)
                os.fsync(stream.fileno())
