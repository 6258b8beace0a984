"""Levels: the scored candidates of a tree by depth, kept sorted while the tree grows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

Entry = tuple[float, int, str]
"""Score, minus the node's index, id: ascending, so that of equal scores the earlier node is better."""


@dataclass(slots=True)
class Level:
    """The candidates of one depth. Adding and removing take logarithmic time (but for moving memory)."""

    entries: list[Entry] = field(default_factory=list)
    _sum: float = 0.0
    _squares: float = 0.0

    def add(self, entry: Entry) -> None:
        """Take a candidate in."""
        insort(self.entries, entry)
        self._sum += entry[0]
        self._squares += entry[0] ** 2

    def remove(self, entry: Entry) -> None:
        """Take a candidate out."""
        del self.entries[bisect_left(self.entries, entry)]
        self._sum -= entry[0]
        self._squares -= entry[0] ** 2

    @property
    def variance(self) -> float:
        """Population variance of the scores."""
        count = len(self.entries)
        return max(0.0, self._squares / count - (self._sum / count) ** 2) if count else 0.0

    def rank(self, score: float) -> float:
        """Mean rank of a score among the level's: 0 the lowest, 1 the highest, 1/2 where there is but one."""
        if len(self.entries) < 2:
            return 0.5
        first = bisect_left(self.entries, (score,))
        last = bisect_right(self.entries, (score, 1, ""))
        return min(1.0, max(0.0, (first + last - 1) / 2 / (len(self.entries) - 1)))


@dataclass(slots=True)
class Levels:
    """The levels of a tree by depth."""

    by_depth: dict[int, Level] = field(default_factory=dict)

    def add(self, depth: int, entry: Entry) -> None:
        """Take a candidate of a depth in."""
        self.by_depth.setdefault(depth, Level()).add(entry)

    def remove(self, depth: int, entry: Entry) -> None:
        """Take a candidate of a depth out."""
        level = self.by_depth[depth]
        level.remove(entry)
        if not level.entries:
            del self.by_depth[depth]

    def best_first(self, depth: int) -> Sequence[Entry]:
        """The candidates of a depth, the best one first."""
        return self.by_depth[depth].entries[::-1] if depth in self.by_depth else ()
