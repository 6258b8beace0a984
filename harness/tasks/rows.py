"""Rows of data: JSONL, JSON, CSV and parquet files, and data sets of the hub."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")


def read_rows(path: Path) -> Sequence[Mapping[str, object]]:
    """Return the rows of a file, by its suffix.

    Raises:
        ValueError: the suffix is unknown or a line is not an object; the message names file and line.
        OSError: the file cannot be read.
    """
    if path.suffix == ".parquet":
        import pyarrow.parquet

        rows: list[Mapping[str, object]] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))
    if path.suffix == ".json":
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            raise ValueError(f"{path} must be a list of objects")
        return value
    if path.suffix != ".jsonl":
        raise ValueError(f"{path}: unknown suffix {path.suffix!r}; known: {', '.join(SUFFIXES)}")
    return _jsonl(path)


def _jsonl(path: Path) -> list[Mapping[str, object]]:
    rows: list[Mapping[str, object]] = []
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path} line {number}: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path} line {number}: must be an object, not {row!r}")
            rows.append(row)
    return rows


def hub_rows(repository: str, subset: str | None, splits: Sequence[str]) -> Sequence[Mapping[str, object]]:
    """Return the rows of a hub data set's splits, one after the other; fetched or from the cache."""
    from datasets import load_dataset

    rows: list[Mapping[str, object]] = []
    for split in splits:
        rows += [dict(row) for row in load_dataset(repository, subset, split=split)]
    return rows
