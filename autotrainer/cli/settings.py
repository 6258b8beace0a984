"""StudyConfig from the command line: --config first, then flags, then --set."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotrainer.cli.locate import new_study_id
from autotrainer.cli.nearest import did_you_mean
from autotrainer.errors import ConfigError

if TYPE_CHECKING:
    from autotrainer.study.config import StudyConfig

CPU_MODEL = "tiny"
SMALL_GPU_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
LARGE_GPU_MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
LARGE_FROM_DEVICE_S = 96 * 3600.0
"""Device-seconds from which the larger model leaves room for a tree of runs."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What `autotrainer run` was given; None and empty mean: not given."""

    task: str | None = None
    budget: str | None = None
    model: str | None = None
    seed: int | None = None
    planner: str | None = None
    policy: str | None = None
    study: str | None = None
    config: Path | None = None
    skills: tuple[Path, ...] = ()
    tasks: tuple[Path, ...] = ()
    reward: str | None = None
    force: bool = False
    settings: tuple[str, ...] = ()
    llm: Mapping[str, Any] = field(default_factory=dict)
    """Keys of LlmSettings."""
    mlflow_uri: str | None = None
    executor: str | None = None


def build_config(flags: Flags, runs: Path) -> StudyConfig:
    """The config of a new study.

    Raises:
        ConfigError: something is missing, unknown or not allowed; nothing has been created.
    """
    from autotrainer.library.places import skill_dirs
    from autotrainer.study.config import StudyConfig
    from autotrainer.study.tasks import PREFIXES, absolute_reward, described, task_facts, task_table

    values = read_config(flags.config) if flags.config else {}
    given = {
        "task": flags.task,
        "budget_text": flags.budget,
        "model": flags.model,
        "seed": flags.seed,
        "planner": flags.planner,
        "policy": flags.policy,
        "id": flags.study,
        "executor": flags.executor,
    }
    values.update({key: value for key, value in given.items() if value is not None})
    asked = (*map(Path, values.get("skills_dirs", ())), *flags.skills)
    if folders := skill_dirs(asked):
        values["skills_dirs"] = [str(path) for path in folders]
    if flags.tasks:
        values["tasks_dirs"] = [*values.get("tasks_dirs", ()), *(str(path.resolve()) for path in flags.tasks)]
    if flags.reward is not None:
        values["reward"] = absolute_reward(flags.reward)
    if flags.force:
        values["force"] = True
    if "task" not in values:
        raise ConfigError(f"no task: give --task NAME, one of {', '.join(sorted(task_table()))}")
    if "budget_text" not in values:
        raise ConfigError("no budget: give --budget NxDxT, as in 2xCPUx6m or 8xH100x24h")
    if str(values["task"]).startswith(PREFIXES):
        values["task"] = described(str(values["task"]))["name"]
    task_facts(str(values["task"]), values.get("tasks_dirs", ()))
    _apply_llm(values, flags)
    for text in flags.settings:
        _apply(values, text)
    if isinstance(values.get("llm"), dict) and values["llm"].get("model") and flags.planner is None:
        values["planner"] = "llm"
    if flags.mlflow_uri is not None:
        values["tracking"] = {"mlflow_uri": flags.mlflow_uri}
    values.setdefault("model", default_model(str(values["budget_text"])))
    values["model"] = _absolute_model(values["model"])
    values.setdefault("id", new_study_id(str(values["task"]), runs))
    return StudyConfig.build(values)


def read_config(path: Path) -> dict[str, Any]:
    """The values of a study.toml, checked for syntax only; `budget = "NxDxT"` may stand for budget_text.

    Raises:
        ConfigError: it is missing or not TOML.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read --config {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path} is not TOML: {error}") from error
    if isinstance(values.get("budget"), str):
        values["budget_text"] = values.pop("budget")
    folders = values.get("skills_dirs")
    if isinstance(folders, list):
        values["skills_dirs"] = [str((path.parent / str(folder)).resolve()) for folder in folders]
    return values


def parse_value(text: str) -> bool | int | float | str:
    """A TOML scalar, or the text itself where it is none."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = parsed["value"]
    return value if len(parsed) == 1 and isinstance(value, bool | int | float | str) else text


def default_model(budget_text: str) -> str:
    """The model of a study that names none: the shipped one on CPU cores, an instruct model on GPUs.

    Raises:
        ConfigError: the budget is malformed.
    """
    from autotrainer.budget.grammar import parse_budget

    budget = parse_budget(budget_text)
    if budget.is_cpu:
        return CPU_MODEL
    return LARGE_GPU_MODEL if budget.device_s >= LARGE_FROM_DEVICE_S else SMALL_GPU_MODEL


def _apply_llm(values: dict[str, Any], flags: Flags) -> None:
    """The --llm options. A model that only the environment names does not overrule another --planner."""
    given = {key: value for key, value in flags.llm.items() if value is not None}
    if flags.planner not in (None, "llm"):
        if given.get("model") == os.environ.get("AUTOTRAINER_LLM"):
            given.pop("model", None)
        if given.get("model"):
            raise ConfigError(
                f"--planner {flags.planner} has no use for --llm {given['model']}: give one of them"
            )
    table = values.setdefault("llm", {})
    if not isinstance(table, dict):
        raise ConfigError(f"--config: llm = {table!r} is not allowed: it must be a table")
    values["llm"] = {**table, **given}
    asked = set(given) - {"model"}
    if (
        asked
        and not values["llm"].get("model")
        and not any(t.startswith("llm.model=") for t in flags.settings)
    ):
        option = "--approve" if asked == {"approve"} else "the --llm options"
        raise ConfigError(
            f"{option} need a language model: give --llm PROVIDER/MODEL, or set AUTOTRAINER_LLM"
        )


def _apply(values: dict[str, Any], text: str) -> None:
    """One --set SECTION.KEY=VALUE."""
    from autotrainer.study.config import known_keys

    key, equals, value = text.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or not dot or not section or not name:
        raise ConfigError(
            f"--set {text!r} is not of the form SECTION.KEY=VALUE, as in recipe.learning_rate=1e-4"
        )
    known = known_keys()
    if f"{section}.{name}" not in known:
        near = [item for item in known if item.startswith(f"{section}.")]
        hint = did_you_mean(key.strip(), known)
        raise ConfigError(f"--set: unknown key {key.strip()!r}: known are {', '.join(near or known)}{hint}")
    table = values.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"--config: {section} = {table!r} is not allowed: it must be a table")
    values[section] = {**table, name: parse_value(value.strip())}


def _absolute_model(model: Any) -> Any:
    """A model's folder as an absolute path, so that a study resumes anywhere; other names as they are."""
    from autotrainer.resources import model_names

    if not isinstance(model, str) or model in model_names():
        return model
    folder = Path(model).expanduser()
    return str(folder.resolve()) if (folder / "config.json").is_file() else model
