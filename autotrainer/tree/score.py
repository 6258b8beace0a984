"""Score: what the evaluator measured for one checkpoint on one split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, pstdev
from typing import Any, Self

SPLITS = ("probe", "dev", "holdout", "test")


@dataclass(frozen=True, slots=True)
class Score:
    """Sampled accuracy of one checkpoint: the mean over items of the mean over samples; higher is better.

    `low` and `high` bound the mean's 95 % interval over items (normal approximation); two checkpoints are
    compared with `beats`, which pairs their items. `greedy` is the mean of the greedy completions. The
    journal, and so the tree, holds scores without their items, which stay in evals/; `count` is their number.
    """

    split: str
    items: Mapping[str, float]
    samples: int
    seeds: tuple[int, ...]
    mean: float
    low: float
    high: float
    greedy: float
    count: int = 0

    @classmethod
    def from_items(
        cls, split: str, items: Mapping[str, float], *, samples: int, seeds: tuple[int, ...], greedy: float
    ) -> Self:
        """The score of per-item means.

        Raises:
            ValueError: there are no items.
        """
        if not items:
            raise ValueError(f"a score on {split} needs at least one item")
        values = list(items.values())
        mean = fmean(values)
        half = 1.96 * pstdev(values) / sqrt(len(values))
        return cls(
            split,
            dict(items),
            samples,
            seeds,
            mean,
            max(0.0, mean - half),
            min(1.0, mean + half),
            greedy,
            len(values),
        )

    @property
    def n(self) -> int:
        """Number of items."""
        return self.count or len(self.items)

    def beats(self, other: Score, *, confidence: float = 0.95) -> bool:
        """Whether the paired bootstrap over common items puts this score above the other."""
        from autotrainer.search.statistics import paired_difference

        return paired_difference(self, other, confidence=confidence).low > 0

    def summary(self) -> dict[str, Any]:
        """The score without its items, for events and listings."""
        return {
            "split": self.split,
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "greedy": self.greedy,
            "n": self.n,
            "samples": self.samples,
            "seeds": list(self.seeds),
        }

    def to_json(self) -> dict[str, Any]:
        """The score as plain JSON values, items included."""
        return {**self.summary(), "items": dict(self.items)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The score back from `to_json`."""
        return cls(
            split=value["split"],
            items=dict(value.get("items", {})),
            samples=value["samples"],
            seeds=tuple(value["seeds"]),
            mean=value["mean"],
            low=value["low"],
            high=value["high"],
            greedy=value["greedy"],
            count=value["n"],
        )
