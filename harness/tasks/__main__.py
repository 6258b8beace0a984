"""What the control plane asks of tasks: `python -m harness.tasks facts|check|preview NAME` prints JSON."""

import json
import sys
from dataclasses import asdict
from typing import Any

from harness.tasks.api import SPLITS, Item, Task
from harness.tasks.audit import AuditError, audit_items
from harness.tasks.hub import Gsm8kTask, Math500Task, sample_rows
from harness.tasks.leaks import find_leaks
from harness.tasks.registry import facts, load, names

SAMPLED: dict[str, type[Gsm8kTask] | type[Math500Task]] = {"gsm8k": Gsm8kTask, "math500": Math500Task}


def full(name: str) -> str:
    """Return the name as it goes into a study: data by its absolute path, options written out."""
    if name.startswith(("file:", "hub:")):
        from harness.tasks.file_task import full_name

        return full_name(name)
    return name


def describe(name: str) -> dict[str, Any]:
    """Return the full name and the facts of a task."""
    name = full(name)
    return {"name": name, "facts": asdict(facts(name))}


def preview(name: str, n: int) -> dict[str, Any]:
    """Return items of train with their answers, what is accepted and what is refused."""
    task, items, source = _items(name, {"train": n})
    rows = [
        {
            "id": item.id,
            "prompt": [dict(message) for message in item.prompt],
            "answer": item.answer,
            "accepted": task.gold(item),
            "refused": task.known_bad(item),
            "perturbed": task.perturb(item, 0).prompt[-1]["content"],
        }
        for item in items["train"][:n]
    ]
    return {"task": name, "source": source, "items": rows}


def check(name: str) -> dict[str, Any]:
    """Return the audit of a task: verifier on known answers, leaks, the perturbation, the table of facts.

    Raises:
        AuditError: it does not pass.
    """
    table = facts(name)
    sizes = {split: min(table.sizes[split], 64) for split in SPLITS}
    task, items, source = _items(name, sizes)
    audit = audit_items(task, items)
    leaks = find_leaks(items)
    if leaks["ngram_overlap"] and not source.startswith("samples"):
        audit["ngram_overlap"] = leaks["ngram_overlap"]
    first = next(iter(items.values()))[0]
    other = task.perturb(first, 1)
    if (
        task.verify(task.gold(other), other.answer, other.columns).score != 1.0
        or other.prompt == first.prompt
    ):
        raise AuditError(
            f"task {name}: the perturbation of {first.id} is the item itself or cannot be solved"
        )
    checked = sum(map(len, items.values()))
    return {"task": name, "source": source, "items": checked, **audit, **leaks}


def _items(name: str, sizes: dict[str, int]) -> tuple[Task, dict[str, list[Item]], str]:
    """Return task, items and their source; shipped samples stand in for hub data that cannot be had."""
    task = load(name)
    try:
        return task, task.splits(sizes, 0), "the task's own items"
    except Exception as error:
        if name not in SAMPLED:
            raise
        sampled = SAMPLED[name](lambda: sample_rows(name))
        reason = f"samples of our own in its format: the data cannot be fetched ({type(error).__name__})"
        return sampled, {"train": sampled.items()}, reason


def main(arguments: list[str]) -> int:
    """Print the answer as one JSON object; 1 with `{"error"}` for a faulty task, 2 for wrong usage."""
    if len(arguments) not in (1, 2, 3) or arguments[0] not in ("list", "facts", "check", "preview"):
        sys.stderr.write("usage: python -m harness.tasks list | facts NAME | check NAME | preview NAME [N]\n")
        return 2
    try:
        if arguments[0] == "list":
            value: Any = {name: asdict(facts(name)) for name in names()}
        elif arguments[0] == "facts":
            value = describe(arguments[1])
        elif arguments[0] == "check":
            value = check(full(arguments[1]))
        else:
            value = preview(full(arguments[1]), int(arguments[2]) if len(arguments) > 2 else 3)
    except (ValueError, OSError) as error:
        sys.stdout.write(json.dumps({"error": " ".join(str(error).split())}) + "\n")
        return 1
    sys.stdout.write(json.dumps(value) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
