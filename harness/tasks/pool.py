"""PooledTask: what tasks share whose items come as a stream; a split follows from an item's content."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import islice

from harness.tasks.api import SPLITS, Item, Verdict

SHARES = (("train", 600), ("probe", 640), ("dev", 760), ("holdout", 880), ("test", 1000))
"""Cumulative shares of the hash space, in thousandths."""

DRAWS_PER_ITEM = 400
"""A stream is given up after this many draws for each item asked for: it repeats itself."""


def split_of(task: str, key: str) -> str:
    """The split of the content `key`: it depends on nothing else, least of all on a seed."""
    share = int.from_bytes(hashlib.sha256(f"{task}:{key}".encode()).digest()[:8]) % 1000
    return next(split for split, bound in SHARES if share < bound)


def normalised(text: str) -> str:
    """Lower case, words and numbers only: what two spellings of one question share."""
    return " ".join(re.findall(r"\w+", text.lower()))


class PooledTask(ABC):
    """A task over a stream of items, endless (procedural) or finite (a data set)."""

    name: str

    @abstractmethod
    def stream(self, seed: str) -> Iterator[Item]:
        """Yield candidate items in an order that the seed decides; repeats are allowed."""

    @abstractmethod
    def verify(self, completion: str, answer: str, columns: Mapping[str, object]) -> Verdict:
        """Return the score of one completion; never raises on any completion."""

    @abstractmethod
    def gold(self, item: Item) -> str:
        """Return a completion that deserves the full score."""

    @abstractmethod
    def known_bad(self, item: Item) -> list[str]:
        """Return completions that deserve zero."""

    def canonical(self, item: Item) -> str:
        """Return the question's words and numbers, without case, space and punctuation."""
        return str(item.columns.get("key") or normalised(item.prompt[-1]["content"]))

    def split(self, item: Item) -> str:
        """Return the split that the item's content belongs to."""
        return split_of(self.name, self.canonical(item))

    def splits(self, sizes: Mapping[str, int], seed: int) -> dict[str, list[Item]]:
        """Return sizes[split] items for each split named; see `Task.splits`."""
        unknown = sorted(set(sizes) - set(SPLITS))
        if unknown:
            raise ValueError(f"unknown splits {unknown}; known: {', '.join(SPLITS)}")
        wrong = [split for split, size in sizes.items() if size < 1]
        if wrong:
            raise ValueError(f"{self.name}: size of {wrong[0]} must be at least 1, not {sizes[wrong[0]]}")
        found: dict[str, dict[str, Item]] = {split: {} for split in sizes}
        limit = DRAWS_PER_ITEM * sum(sizes.values())
        for item in islice(self.stream(f"{self.name}:{seed}"), limit):
            pool = found.get(self.split(item))
            if pool is not None and len(pool) < sizes[self.split(item)]:
                pool.setdefault(self.canonical(item), item)
                if all(len(found[split]) == size for split, size in sizes.items()):
                    break
        for split, size in sizes.items():
            if len(found[split]) < size:
                raise ValueError(
                    f"{self.name}: {split} has {len(found[split])} distinct items, {size} were asked for; "
                    "ask for fewer or give more data"
                )
        return {split: list(pool.values()) for split, pool in found.items()}

    def perturb(self, item: Item, seed: int) -> Item:
        """Return another item of the same split and level from the stream.

        Raises:
            ValueError: the stream has none.
        """
        level, home, key = item.columns.get("level"), self.split(item), self.canonical(item)
        for other in islice(self.stream(f"{self.name}:perturb:{item.id}:{seed}"), 20_000):
            if (
                other.columns.get("level") == level
                and self.canonical(other) != key
                and self.split(other) == home
            ):
                return other
        raise ValueError(f"{self.name}: no other item like {item.id} in {home}")
