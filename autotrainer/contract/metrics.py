"""Metrics: the rows of a metrics.jsonl as series; the input of every diagnostic."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from autotrainer.files import decode_number, read_jsonl


class Metrics:
    """One run's logged rows in the order of their steps, one a step (the later where a step repeats)."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take rows that have an integer `step`; rows without one are left out."""
        by_step: dict[int, dict[str, Any]] = {}
        for row in rows:
            step = row.get("step")
            if isinstance(step, int) and not isinstance(step, bool):
                by_step[step] = {key: decode_number(value) for key, value in row.items()}
        self.rows = [by_step[step] for step in sorted(by_step)]
        self._whole: Metrics | None = None
        self._series: dict[str, list[tuple[int, float]]] = {}
        self._nonfinite: list[tuple[int, str]] | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """The rows of a metrics.jsonl; a missing file has none."""
        return cls(read_jsonl(path))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def last_step(self) -> int:
        """The step of the last row; 0 without rows."""
        return int(self.rows[-1]["step"]) if self.rows else 0

    def until(self, step: int) -> Metrics:
        """The rows up to a step, that one included: what was known then."""
        known = Metrics(())
        known.rows = self.rows[: bisect_right(self.rows, step, key=lambda row: int(row["step"]))]
        known._whole = self._whole or self
        return known

    def series(self, key: str) -> list[tuple[int, float]]:
        """(step, value) where the key was logged with a finite number."""
        if key not in self._series:
            if self._whole is not None:
                whole = self._whole.series(key)
                self._series[key] = whole[: bisect_right(whole, self.last_step, key=lambda item: item[0])]
            else:
                self._series[key] = [
                    (row["step"], float(row[key]))
                    for row in self.rows
                    if isinstance(row.get(key), int | float)
                    and not isinstance(row[key], bool)
                    and math.isfinite(row[key])
                ]
        return self._series[key]

    def values(self, key: str) -> list[float]:
        """The finite values of a key."""
        return [value for _, value in self.series(key)]

    def nonfinite(self) -> list[tuple[int, str]]:
        """(step, key) of every non-finite value."""
        if self._nonfinite is None:
            if self._whole is not None:
                last = self.last_step
                self._nonfinite = [item for item in self._whole.nonfinite() if item[0] <= last]
            else:
                self._nonfinite = [
                    (row["step"], key)
                    for row in self.rows
                    for key, value in row.items()
                    if isinstance(value, float) and not math.isfinite(value)
                ]
        return self._nonfinite
