"""The task and the reward that a study names: shipped, a plugin, a data file, the user's own function."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotrainer.errors import ConfigError
from autotrainer.recipe.recipe import Recipe, RewardRef
from autotrainer.resources import tree as shipped_tree

if TYPE_CHECKING:
    from autotrainer.study.config import StudyConfig

SANDBOX_SOCKET = "AUTOTRAINER_SANDBOX_SOCKET"
ENTRY_POINTS = "autotrainer.tasks"
PREFIXES = ("file:", "hub:", "gym:")
_LIMIT_S = 300.0


def task_table(dirs: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The tasks that have a table, shipped and of plugin folders: name to facts."""
    text = (shipped_tree("harness") / "tasks" / "tasks.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)
    for folder in plugin_dirs(dirs):
        for path in sorted(Path(folder).glob("*.toml")):
            if path.with_suffix(".py").is_file():
                if path.stem in found:
                    raise ConfigError(f"task {path.stem!r} of {path} exists already: rename the file")
                found[path.stem] = tomllib.loads(path.read_text(encoding="utf-8"))
    return found


def plugin_dirs(dirs: Sequence[str] = ()) -> tuple[str, ...]:
    """The folders of task plugins: those given, and those of installed packages (entry points).

    Raises:
        ConfigError: one is no folder.
    """
    from importlib import metadata
    from importlib.util import find_spec

    found = [str(Path(folder).resolve()) for folder in dirs]
    if missing := [folder for folder in found if not Path(folder).is_dir()]:
        raise ConfigError(f"--tasks {missing[0]} is not a folder")
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        spec = find_spec(entry.module)
        found += list(spec.submodule_search_locations or ()) if spec else []
    return tuple(dict.fromkeys(found))


def task_facts(name: str, dirs: Sequence[str] = ()) -> dict[str, Any]:
    """The facts of a task.

    Raises:
        ConfigError: there is none of that name.
    """
    if name.startswith(PREFIXES):
        return dict(described(name)["facts"])
    tasks = task_table(dirs)
    if name not in tasks:
        known = ", ".join(sorted(tasks))
        raise ConfigError(
            f"unknown task {name!r}: known are {known}; file:DATA.jsonl, hub:OWNER/NAME, gym:NAME too"
        )
    return tasks[name]


@lru_cache(maxsize=32)
def described(name: str) -> dict[str, Any]:
    """Full name and facts of a `file:`, `hub:` or `gym:` task, as the harness sees it.

    Raises:
        ConfigError: the data or an option is at fault.
    """
    return ask_harness("facts", name)


def ask_harness(*arguments: str, dirs: Sequence[str] = ()) -> dict[str, Any]:
    """The answer of `python -m harness.tasks`, which loads what the control plane does not import.

    Raises:
        ConfigError: the task is at fault; the message says why.
    """
    env = {**os.environ, "PYTHONPATH": str(shipped_tree("harness").parent), "PYTHONDONTWRITEBYTECODE": "1"}
    env["AUTOTRAINER_TASKS"] = os.pathsep.join(plugin_dirs(dirs))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "harness.tasks", *arguments],
            env=env,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise ConfigError(f"task {' '.join(arguments)}: no answer ({type(error).__name__})") from error
    if "error" in answer:
        raise ConfigError(str(answer["error"]))
    return answer


def copy_own(config: StudyConfig, harness: Path) -> None:
    """Copy the study's task plugin and reward file into a pristine harness, so that every job has them."""
    for folder in plugin_dirs(config.tasks_dirs):
        for path in Path(folder).glob(f"{config.task}.*"):
            if path.suffix in (".py", ".toml"):
                shutil.copyfile(path, harness / "tasks" / "plugins" / path.name)
    if config.reward is not None:
        path, _ = check_reward_parts(config.reward)
        shutil.copyfile(path, harness / "rewards" / own_file(path))


def own_file(path: Path) -> str:
    """The name that a user's reward file has among the harness's rewards."""
    return f"user_{path.stem}.py"


def check_reward(reward: str | None) -> None:
    """Refuse a reward that is not FILE.py:FUNCTION of an existing file and function.

    Raises:
        ConfigError: it is not.
    """
    if reward is not None:
        check_reward_parts(reward)


def check_reward_parts(reward: str) -> tuple[Path, str]:
    """File and function of FILE.py:FUNCTION; nothing of the file is run.

    Raises:
        ConfigError: there is no such file or function.
    """
    file, colon, function = reward.rpartition(":")
    path = Path(file).expanduser()
    if not colon or path.suffix != ".py" or not function.isidentifier():
        raise ConfigError(f"reward {reward!r} is not of the form FILE.py:FUNCTION")
    if not path.is_file():
        raise ConfigError(f"reward: there is no file {path}")
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(f"reward: {path} is not Python: {error}") from error
    names = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if function not in names:
        raise ConfigError(f"reward: {path} has no function {function!r}; it has {', '.join(names) or 'none'}")
    return path.resolve(), function


def absolute_reward(reward: str) -> str:
    """The reward with its file's absolute path.

    Raises:
        ConfigError: there is no such file or function.
    """
    path, function = check_reward_parts(reward)
    return f"{path}:{function}"


def with_own_reward(recipe: Recipe, reward: str | None) -> Recipe:
    """The recipe trained on a user's function instead of the verifier; the judge stays the verifier."""
    if reward is None:
        return recipe
    file, _, function = reward.rpartition(":")  # the study has its own copy: the file may be gone by now
    params = {"file": own_file(Path(file)), "function": function, "task": recipe.task}
    ref = RewardRef("rewards/own.py:own", 1.0, params)
    return replace(recipe, stages=tuple(replace(stage, rewards=(ref,)) for stage in recipe.stages))


def sandbox_environment(config: StudyConfig) -> dict[str, str]:
    """What a job's environment needs for a broker, where the task's verifier runs programs."""
    facts = task_facts(config.task, config.tasks_dirs)
    return {SANDBOX_SOCKET: "wanted"} if facts.get("sandbox") else {}
