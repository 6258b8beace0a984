"""VirtualClock: the time of a simulated study."""

from __future__ import annotations

EPOCH_S = 1_700_000_000.0
"""Where simulated time starts, in epoch seconds."""


class VirtualClock:
    """Seconds that pass only when somebody says so. Calling it gives the time."""

    def __init__(self, now: float = EPOCH_S) -> None:
        """A clock that stands at `now`."""
        self._now = now

    def __call__(self) -> float:
        """The time, in epoch seconds."""
        return self._now

    def advance_to(self, when: float) -> None:
        """Let time pass up to `when`; a time that has passed already changes nothing."""
        self._now = max(self._now, when)
