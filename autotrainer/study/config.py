"""StudyConfig: what was asked; study.toml, the command line and `--set` all end here."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autotrainer.errors import ConfigError
from autotrainer.planners.llm.settings import LlmSettings
from autotrainer.recipe.knobs import KNOBS, KnobValue, knob


class SearchSettings(BaseModel):
    """The search; `--set search.KEY=VALUE`.

    None means: the plan chooses, from budget, model and cost model.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    mode: str | None = Field(None, pattern="^(watch|careful|tree)$")
    """watch, careful or tree instead of the plan's choice."""
    steps: int | None = Field(None, ge=2, le=1_000_000)
    """Optimiser steps of one node."""
    max_nodes: int | None = Field(None, ge=1, le=100_000)
    """Careful and search nodes together, at most; confirmation is not counted."""
    careful_seeds: int | None = Field(None, ge=1, le=20)
    drafts: int | None = Field(None, ge=0, le=100)
    max_depth: int = Field(4, ge=1, le=100)
    confirm_seeds: int | None = Field(None, ge=2, le=20)
    finalists: int = Field(1, ge=1, le=2)
    kill: bool = True
    """Whether kill rules may stop nodes early."""
    max_attempts: int = Field(3, ge=1, le=10)
    """Attempts of a node that crashes."""


class BudgetSettings(BaseModel):
    """The budget; `--set budget.KEY=VALUE`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    slots: int | None = Field(None, ge=1, le=1024)
    """Jobs at a time; default: one a device."""
    wall_s: float | None = Field(None, gt=0)
    """Time limit of one job; default: three times its estimate, at least two minutes."""
    heartbeat_stale_s: float = Field(60.0, gt=1)
    min_free_gib: float = Field(1.0, ge=0)
    """Free disk below which old checkpoints go, and then the study pauses."""


class EvalSettings(BaseModel):
    """How checkpoints are scored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    dev_items: int = Field(0, ge=0)
    """Items of dev a node is scored on; 0 = all."""
    samples: int = Field(4, ge=1, le=64)
    temperature: float = Field(1.0, gt=0, le=2)


class NotifySettings(BaseModel):
    """Who is told of a promotion, a stop or trouble; `--set notify.KEY=VALUE`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    command: str | None = Field(None, min_length=1)
    """Run with the message as JSON on standard input."""
    webhook: str | None = Field(None, pattern=r"^https?://\S+$")
    """The message is posted there as JSON, with `text` for chat systems."""


class TrackingSettings(BaseModel):
    """Where the study is mirrored for people."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    mlflow_uri: str | None = Field(None, min_length=1)
    """A tracking server or database; default: a database beside the studies."""


class StudyConfig(BaseModel):
    """What was asked of a study; frozen in study.toml.

    `recipe` holds knob overrides of the careful recipe plus, optionally, `algorithm`.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = Field(1, ge=1, le=1)
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    task: str
    model: str
    budget_text: str
    seed: int = Field(0, ge=0, le=2**31 - 1)
    planner: str = "rules"
    policy: str = "auto"
    """`auto`: the one that the planner is meant for."""
    executor: str = Field("local", pattern="^(local|simulated)$")
    """Where jobs run; simulated trains nothing, and everything printed says so."""
    skills_dirs: tuple[str, ...] = ()
    tasks_dirs: tuple[str, ...] = ()
    """Folders of task plugins."""
    reward: str | None = None
    """A user's reward function, FILE.py:FUNCTION: what is trained on; the judge stays the verifier."""
    force: bool = False
    """Start although the pre-launch audit failed."""
    evidence: str = Field("auto", min_length=1)
    """Earlier studies' evidence on skills: auto (this user's store), none, or the path of a store."""
    recipe: dict[str, KnobValue] = Field(default_factory=dict)
    search: SearchSettings = SearchSettings()
    budget: BudgetSettings = BudgetSettings()
    evaluation: EvalSettings = EvalSettings()
    notify: NotifySettings = NotifySettings()
    llm: LlmSettings = LlmSettings()
    tracking: TrackingSettings = TrackingSettings()

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """The config of raw values.

        Raises:
            ConfigError: a key or value is not allowed; one line that names it.
        """
        try:
            config = cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                raise ConfigError(f"unknown key {where!r}: known are {', '.join(known_keys())}") from error
            raise ConfigError(f"{where} = {first.get('input')!r} is not allowed: {first['msg']}") from error
        if (config.planner == "llm") != (config.llm.model is not None):
            raise ConfigError(
                "planner llm and --llm MODEL go together: give --llm PROVIDER/MODEL, or another --planner"
            )
        if config.policy == "auto":
            from autotrainer.planners.registry import own_policy

            config = config.model_copy(update={"policy": own_policy(config.planner)})
        for name, value in config.recipe.items():
            if name != "algorithm":
                knob(name).check(value)
            elif value != "grpo":
                raise ConfigError(f"recipe.algorithm = {value!r} is not allowed: it must be grpo")
        return config

    @classmethod
    def read(cls, path: Path) -> Self:
        """The config of a study.toml.

        Raises:
            ConfigError: the file is missing, not TOML, or breaks a rule.
        """
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"there is no {path}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from error
        return cls.build(values)

    def to_toml(self) -> str:
        """The config as TOML; `read` gives it back."""
        value = self.model_dump(mode="json", exclude_none=True)
        scalars = {key: item for key, item in value.items() if not isinstance(item, dict)}
        lines = [f"{key} = {_toml(item)}" for key, item in scalars.items()]
        for key, table in value.items():
            if isinstance(table, dict) and table:
                lines += ["", f"[{key}]", *(f"{name} = {_toml(item)}" for name, item in table.items())]
        return "\n".join(lines) + "\n"


def known_keys() -> tuple[str, ...]:
    """Every key that `--set` and study.toml know, with its section."""
    sections: dict[str, type[BaseModel]] = {
        "search": SearchSettings,
        "budget": BudgetSettings,
        "evaluation": EvalSettings,
        "notify": NotifySettings,
        "llm": LlmSettings,
        "tracking": TrackingSettings,
    }
    keys = [f"recipe.{name}" for name in ("algorithm", *KNOBS)]
    return tuple(keys + [f"{name}.{key}" for name, model in sections.items() for key in model.model_fields])


def _toml(value: Any) -> str:
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value)
