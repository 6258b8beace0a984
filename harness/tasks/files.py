"""Files of items: one JSON row a line, written whole or not at all."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from harness.tasks.api import Item


def write_items(path: Path, items: Sequence[Item], mode: int = 0o644) -> str:
    """Write the items aside, fsync and rename into place; return the SHA-256 of the file."""
    lines = [json.dumps(item.to_row(), sort_keys=True, ensure_ascii=False, allow_nan=False) for item in items]
    content = "".join(f"{line}\n" for line in lines).encode()
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    return hashlib.sha256(content).hexdigest()


def read_items(path: Path) -> list[Item]:
    """Return the items of a file in its order.

    Raises:
        ValueError: A line is not an item; the message names file and line.
    """
    items: list[Item] = []
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                items.append(Item.from_row(json.loads(line)))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path} line {number}: {error}") from None
    return items
