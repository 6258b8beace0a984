"""What a task is: items in disjoint splits, and a verifier. Standard library only."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

SCHEMA_VERSION = 1
SPLITS = ("train", "probe", "dev", "holdout", "test")

_ROW_KEYS = frozenset({"schema_version", "id", "prompt", "answer", "columns"})


def item_id(prompt: Sequence[Mapping[str, str]], answer: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of the canonical JSON of prompt and answer."""
    content = {"answer": answer, "prompt": [dict(message) for message in prompt]}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Item:
    """One question: the messages a policy sees, the reference answer, and columns that rewards may read."""

    id: str
    prompt: tuple[dict[str, str], ...]
    answer: str
    columns: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls, prompt: Sequence[Mapping[str, str]], answer: str, columns: Mapping[str, object] | None = None
    ) -> "Item":
        """Return the item with this content; its id follows from prompt and answer alone."""
        messages = tuple(dict(message) for message in prompt)
        return cls(item_id(messages, answer), messages, answer, dict(columns or {}))

    def to_row(self) -> dict[str, object]:
        """Return the item as one JSON row of a data file."""
        return {
            "schema_version": SCHEMA_VERSION,
            "id": self.id,
            "prompt": [dict(message) for message in self.prompt],
            "answer": self.answer,
            "columns": dict(self.columns),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, object]) -> "Item":
        """Return the item in one JSON row of a data file.

        Raises:
            ValueError: The row is not one `to_row` writes, or its id is not that of its content.
            TypeError: The row is no object.
        """
        if not isinstance(row, Mapping):
            raise TypeError(f"an item must be a JSON object, not {row!r}")
        if set(row) != _ROW_KEYS or row["schema_version"] != SCHEMA_VERSION:
            raise ValueError(
                f"an item must have the keys {sorted(_ROW_KEYS)} and schema_version {SCHEMA_VERSION}, "
                f"not {sorted(row)} and {row.get('schema_version')!r}"
            )
        prompt, answer, columns = row["prompt"], row["answer"], row["columns"]
        if not isinstance(prompt, list) or not prompt or not all(_is_message(message) for message in prompt):
            raise ValueError(f"item {row['id']!r}: prompt must be [{{role, content}}, ...], not {prompt!r}")
        if not isinstance(answer, str) or not isinstance(columns, dict):
            raise ValueError(f"item {row['id']!r}: answer must be a string and columns an object")
        item = cls.of(prompt, answer, columns)
        if item.id != row["id"]:
            raise ValueError(f"item {row['id']!r}: the id of its content is {item.id!r}; the row was altered")
        return item


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"role", "content"}
        and all(isinstance(text, str) for text in value.values())
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier says of one completion: a score in [0, 1], or None where it cannot be scored."""

    score: float | None
    reason: str


class Task(Protocol):
    """Items and their verifier. Deterministic: equal arguments give equal results, in any process."""

    @property
    def name(self) -> str:
        """The name of the task's table in tasks.toml."""

    def splits(self, sizes: Mapping[str, int], seed: int) -> dict[str, list[Item]]:
        """Return sizes[split] distinct items for each split named in sizes.

        Which split an item belongs to depends on its content alone; the seed chooses which of a
        split's items are returned, and in which order.

        Raises:
            ValueError: A split is unknown, or has fewer items than asked for.
        """

    def verify(self, completion: str, answer: str, columns: Mapping[str, object]) -> Verdict:
        """Return the score of one completion; never raises on any completion."""

    def gold(self, item: Item) -> str:
        """Return a completion that deserves the full score."""

    def known_bad(self, item: Item) -> list[str]:
        """Return completions that deserve zero, among them the ways a lenient verifier is fooled."""

    def perturb(self, item: Item, seed: int) -> Item:
        """Return another item of the same kind, difficulty and split, to be worked out anew."""

    def canonical(self, item: Item) -> str:
        """Return a key that items with the same content in another form share; no two splits share a key."""
