"""Facts of tasks that have no table: sizes from the data itself."""

from typing import TYPE_CHECKING

from harness.tasks.api import SPLITS
from harness.tasks.file_task import GymTask, data_task, parse_name

if TYPE_CHECKING:
    from harness.tasks.registry import TaskFacts

LARGEST = {"train": 4096, "probe": 128, "dev": 512, "holdout": 512, "test": 512}
"""Items of a split at most, as the shipped tasks have."""

LEAST = 4
"""Items of a split at least."""


def measured_facts(name: str) -> "TaskFacts":
    """Return the facts of a `file:`, `hub:` or `gym:` task.

    Raises:
        ValueError: the data is too small for five splits.
    """
    from harness.tasks.registry import TaskFacts

    if name.startswith("gym:"):
        GymTask(name.partition(":")[2])
        return TaskFacts(
            f"reasoning-gym {name[4:]}",
            128,
            128,
            "Apache-2.0",
            "reasoning-gym",
            {split: min(LARGEST[split], 256) for split in SPLITS},
        )
    _, place, options = parse_name(name)
    task = data_task(name)
    counts = dict.fromkeys(SPLITS, 0)
    words = 1
    for item in task.items():
        counts[task.split(item)] += 1
        words = max(words, len(item.prompt[-1]["content"].split()))
    small = [split for split in SPLITS if counts[split] < LEAST]
    if small:
        raise ValueError(
            f"{place}: {sum(counts.values())} items leave {counts[small[0]]} for {small[0]}, needed are "
            f"{LEAST}; give more rows (about 200 suffice)"
        )
    return TaskFacts(
        f"{place.rpartition('/')[2]}, verifier {options['verifier']}",
        int(options["max_completion_length"]),
        2 * words,
        options["licence"],
        place,
        {split: min(LARGEST[split], counts[split]) for split in SPLITS},
    )
