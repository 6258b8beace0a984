"""The training set: a JSONL file in memory, or parquet shards that are mapped into memory and never held.

Shards have the columns id, prompt (list of {role, content}), answer and columns (JSON). They are converted to
an Arrow cache once (HF_DATASETS_CACHE); afterwards a start reads the cache, whatever their size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from harness.tasks.api import Item
from harness.tasks.files import read_items

RECENT = 100_000
"""Prompts that are remembered of a mapped set, for rewards to look up."""


class TrainingSet(Sequence[Item]):
    """Items by index; by id those that were remembered, which of a set in memory are all."""

    def __init__(self, rows: Any, mapped: bool) -> None:
        """Take a list of items, or a datasets.Dataset of shards."""
        self._rows, self._mapped = rows, mapped
        self._recent: dict[str, int] = {} if mapped else {item.id: place for place, item in enumerate(rows)}
        self.prompt_ids: Sequence[str] = _Ids(rows) if mapped else [item.id for item in rows]

    @classmethod
    def open(cls, path: Path) -> TrainingSet:
        """The set of a .jsonl file, a .parquet file, or a folder of .parquet shards.

        Raises:
            ValueError: it is none of these, a line is no item, or a folder has no shards.
        """
        if path.suffix == ".jsonl":
            return cls(read_items(path), mapped=False)
        shards = [path] if path.suffix == ".parquet" else sorted(path.glob("*.parquet"))
        if not shards or not all(shard.is_file() for shard in shards):
            raise ValueError(f"{path} is no .jsonl or .parquet file, and no folder of .parquet shards")
        from datasets import load_dataset

        rows = load_dataset("parquet", data_files=[str(shard) for shard in shards], split="train")
        if missing := {"id", "prompt", "answer", "columns"} - set(rows.column_names):
            raise ValueError(f"{path}: the shards lack the columns {', '.join(sorted(missing))}")
        return cls(rows, mapped=True)

    def __len__(self) -> int:
        """Prompts."""
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        """The item, or items, at a place."""
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        row = self._rows[place]
        if not self._mapped:
            item: Item = row
            return item
        return Item(row["id"], tuple(row["prompt"]), row["answer"], json.loads(row["columns"] or "{}"))

    def __iter__(self) -> Iterator[Item]:
        """The items in order."""
        return (self[place] for place in range(len(self)))

    def remember(self, places: Iterable[int]) -> None:
        """Make items findable by id; of a mapped set the oldest are forgotten."""
        if not self._mapped:
            return
        for place in places:
            self._recent[self.prompt_ids[place]] = place
        while len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    def place_of(self, prompt_id: str) -> int:
        """The index of a remembered prompt.

        Raises:
            KeyError: it is not remembered.
        """
        return self._recent[prompt_id]

    def find(self, prompt_id: str) -> Item:
        """A remembered item.

        Raises:
            KeyError: it is not remembered.
        """
        return self[self.place_of(prompt_id)]

    def dataset(self) -> Any:
        """The rows as TRL takes them: prompt, prompt_id, prompt_index."""
        import numpy as np
        from datasets import Dataset

        if not self._mapped:
            return Dataset.from_list(
                [
                    {"prompt": list(item.prompt), "prompt_id": item.id, "prompt_index": place}
                    for place, item in enumerate(self._rows)
                ]
            )
        rows = self._rows.select_columns(["prompt", "id"]).rename_column("id", "prompt_id")
        return rows.add_column("prompt_index", np.arange(len(rows)))

    def filtered(self, tokenizer: Any, max_prompt_length: int) -> TrainingSet:
        """The set without prompts of more tokens, chat template and generation prompt included.

        The choice is cached with the Arrow cache of a mapped set.

        Raises:
            ValueError: no prompt is left.
        """

        def fits(prompts: list[Any]) -> list[bool]:
            texts = [
                tokenizer.apply_chat_template(list(prompt), tokenize=False, add_generation_prompt=True)
                for prompt in prompts
            ]
            found = tokenizer(texts, add_special_tokens=False)["input_ids"]
            return [len(ids) <= max_prompt_length for ids in found]

        if self._mapped:
            vocabulary = hashlib.sha256(repr(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()
            content = (self._rows._fingerprint, vocabulary, tokenizer.chat_template, max_prompt_length)
            rows = self._rows.filter(
                fits,
                batched=True,
                batch_size=10_000,
                input_columns=["prompt"],
                new_fingerprint=hashlib.sha256(repr(content).encode()).hexdigest()[:16],
            )
        else:
            kept = fits([item.prompt for item in self._rows])
            rows = [item for item, keep in zip(self._rows, kept, strict=True) if keep]
        if not len(rows):
            raise ValueError(f"max_prompt_length = {max_prompt_length}: every prompt is longer")
        return TrainingSet(rows, self._mapped)


class _Ids(Sequence[str]):
    """The ids of a mapped set, read when they are asked for."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        found: Any = self._rows[place]["id"]
        return found if isinstance(found, str) else list(found)


def write_shards(folder: Path, items: Iterable[Item], rows: int = 100_000) -> list[Path]:
    """Write items as parquet shards of `rows` rows; items are taken as they come and not kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("id", pa.string()),
            ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
            ("answer", pa.string()),
            ("columns", pa.string()),
        ]
    )
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    batch: list[dict[str, Any]] = []

    def flush() -> None:
        path = folder / f"{len(paths):05d}.parquet"
        pq.write_table(pa.Table.from_pylist(batch, schema=schema), path)
        paths.append(path)
        batch.clear()

    for item in items:
        columns = json.dumps(item.columns, sort_keys=True, ensure_ascii=False)
        batch.append({"id": item.id, "prompt": list(item.prompt), "answer": item.answer, "columns": columns})
        if len(batch) == rows:
            flush()
    if batch:
        flush()
    return paths
