"""StopOnInterrupt: Ctrl-C once asks a study to stop, twice leaves its jobs running."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class StopOnInterrupt:
    """While it is entered, the first SIGINT or SIGTERM only sets `asked`; a second SIGINT interrupts.

    Jobs are in sessions of their own and see neither. `announce` is called once, by the first `asked` after
    the signal: the handler itself may interrupt a write and prints nothing.
    """

    def __init__(self, announce: Callable[[], None]) -> None:
        """A guard that has seen no signal."""
        self._announce = announce
        self._asked = False
        self._announced = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Take the signals over."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def asked(self) -> bool:
        """Whether a stop was asked for."""
        if self._asked and not self._announced:
            self._announced = True
            self._announce()
        return self._asked

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self._asked = True
