"""The items of the task math that both sides train on: `python -m experiments.overhead.data FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.tasks import load
from harness.tasks.files import write_items


def write(folder: Path) -> None:
    """Write train.jsonl and probe.jsonl."""
    for name, items in load("math").splits({"train": 512, "probe": 8}, 0).items():
        write_items(folder / f"{name}.jsonl", items)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
