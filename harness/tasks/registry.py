"""Find a task by its name, and the facts that tasks.toml holds about it."""

import importlib.util
import os
import sys
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
"""Tasks of others: `<name>.py` with a function `task()` and `<name>.toml`, a table as in tasks.toml."""


DIRS_VARIABLE = "AUTOTRAINER_TASKS"
"""More folders of plugins, for the command line; jobs have only what was copied into their harness."""


def plugin(name: str) -> Path | None:
    """Return the TOML file of a plugin, or None where there is no plugin of this name."""
    folders = [PLUGINS, *(Path(part) for part in os.environ.get(DIRS_VARIABLE, "").split(os.pathsep) if part)]
    found = (folder / f"{name}.toml" for folder in folders)
    return next((path for path in found if path.is_file() and path.with_suffix(".py").is_file()), None)


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One table of tasks.toml; lengths are in tokens, the sizes in items."""

    title: str
    max_completion_length: int
    prompt_tokens: int
    licence: str
    source: str
    sizes: dict[str, int]
    sandbox: bool = False
    """Whether the verifier runs programs."""


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
    if (table := plugin(name)) is not None:
        return _load_plugin(table.with_suffix(".py"))
    raise ValueError(f"unknown task {name!r}; known: {', '.join(names())}, and file:, hub:, gym: names")


def _load_plugin(path: Path) -> Task:
    spec = importlib.util.spec_from_file_location(f"autotrainer_tasks.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    factory: Callable[[], Task] | None = getattr(module, "task", None)
    if not callable(factory):
        raise ValueError(f"{path} has no function task() that returns the task")
    return factory()


def facts(name: str, path: Path = FACTS_FILE) -> TaskFacts:
    """Return what tasks.toml says of the task; of other names, what follows from their data.

    Raises:
        ValueError: There is no table for it, or the table is not complete.
    """
    if name.partition(":")[0] in ("file", "hub", "gym") and ":" in name:
        from harness.tasks.measured import measured_facts

        return measured_facts(name)
    if (table_of_plugin := plugin(name)) is not None and path == FACTS_FILE:
        path = table_of_plugin
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
