"""Find a task by its name, and the facts that tasks.toml holds about it."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.tasks.api import SPLITS, Task
from harness.tasks.arithmetic import ArithmeticTask

_TASKS: dict[str, Callable[[], Task]] = {"math": ArithmeticTask}

FACTS_FILE = Path(__file__).with_name("tasks.toml")


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One table of tasks.toml; lengths are in tokens, the sizes in items."""

    title: str
    max_completion_length: int
    prompt_tokens: int
    licence: str
    source: str
    sizes: dict[str, int]


def names() -> list[str]:
    """Return the known tasks, sorted."""
    return sorted(_TASKS)


def load(name: str) -> Task:
    """Return the task of this name.

    Raises:
        ValueError: There is no such task.
    """
    if name not in _TASKS:
        raise ValueError(f"unknown task {name!r}; known: {', '.join(names())}")
    return _TASKS[name]()


def facts(name: str, path: Path = FACTS_FILE) -> TaskFacts:
    """Return what tasks.toml says of the task.

    Raises:
        ValueError: There is no table for it, or the table is not complete.
    """
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    if name not in tables:
        raise ValueError(f"no table [{name}] in {path.name}; it has: {', '.join(sorted(tables))}")
    try:
        table = TaskFacts(**tables[name])
    except TypeError as error:
        raise ValueError(f"[{name}] in {path.name}: {error}") from None
    if set(table.sizes) != set(SPLITS):
        raise ValueError(f"[{name}] in {path.name}: sizes must name {SPLITS}, not {tuple(table.sizes)}")
    return table
