"""Find a task by its name, and the facts that tasks.toml holds about it."""

import importlib
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from harness.tasks.api import SPLITS, Task

SHIPPED: dict[str, str] = {
    "math": "arithmetic:ArithmeticTask",
    "compose": "compose:ComposeTask",
    "logic": "logic:LogicTask",
    "code": "code:CodeTask",
    "gsm8k": "hub:Gsm8kTask",
    "math500": "hub:Math500Task",
}
"""Module in this folder and class, by name; imported when asked for."""

FACTS_FILE = Path(__file__).with_name("tasks.toml")
PLUGINS = Path(__file__).with_name("plugins")
"""Tasks of others: `<name>.py` with a function `task()` and `<name>.toml`, a table like those of tasks.toml."""


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
    """Return the known tasks, sorted; `file:`, `hub:` and `gym:` name more."""
    return sorted({*SHIPPED, *(path.stem for path in PLUGINS.glob("*.toml"))})


def load(name: str) -> Task:
    """Return the task of this name.

    Raises:
        ValueError: There is no such task.
    """
    kind, colon, rest = name.partition(":")
    if colon and kind in ("file", "hub"):
        from harness.tasks.file_task import data_task

        return data_task(name)
    if colon and kind == "gym":
        from harness.tasks.file_task import GymTask

        return GymTask(rest)
    if name in SHIPPED:
        module, _, attribute = SHIPPED[name].partition(":")
        return cast("Task", getattr(importlib.import_module(f"harness.tasks.{module}"), attribute)())
    if (PLUGINS / f"{name}.toml").is_file():
        module_of_plugin = importlib.import_module(f"harness.tasks.plugins.{name}")
        factory: Callable[[], Task] = module_of_plugin.task
        return factory()
    raise ValueError(f"unknown task {name!r}; known: {', '.join(names())}, and file:, hub:, gym: names")


def facts(name: str, path: Path = FACTS_FILE) -> TaskFacts:
    """Return what tasks.toml says of the task; of other names, what follows from their data.

    Raises:
        ValueError: There is no table for it, or the table is not complete.
    """
    if name.partition(":")[0] in ("file", "hub", "gym") and ":" in name:
        from harness.tasks.measured import measured_facts

        return measured_facts(name)
    if (PLUGINS / f"{name}.toml").is_file() and path == FACTS_FILE:
        path = PLUGINS / f"{name}.toml"
        tables = {name: tomllib.loads(path.read_text(encoding="utf-8"))}
    else:
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
