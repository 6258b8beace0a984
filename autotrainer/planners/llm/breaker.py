"""Breaker: after calls in a row that fail, the model is left alone for some decisions, then asked once."""

from __future__ import annotations


class Breaker:
    """A circuit breaker that counts decisions, not seconds: a replayed study takes the same path."""

    def __init__(self, max_failures: int, rest: int) -> None:
        """Closed."""
        self._max_failures, self._rest = max_failures, rest
        self._failures = 0
        self._left = 0
        self.reason = ""

    @property
    def is_open(self) -> bool:
        """Whether no call is to be made now."""
        return self._left > 0

    def succeeded(self) -> None:
        """A call was answered."""
        self._failures, self._left = 0, 0

    def failed(self, reason: str, *, for_good: bool = False) -> None:
        """A call was not; `for_good` opens the breaker for the rest of the study."""
        self._failures += 1
        self.reason = reason
        if for_good:
            self._left = 1_000_000_000
        elif self._failures >= self._max_failures:
            self._left = self._rest
            self._failures = self._max_failures - 1  # one more failure after the rest opens it again

    def decision_passed(self) -> None:
        """One decision was taken without the model."""
        self._left = max(0, self._left - 1)
