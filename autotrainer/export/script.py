"""train.py: a plain TRL script that repeats the path to a model, without any import of ours."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autotrainer.errors import ConfigError
from autotrainer.export.inline import Inliner
from autotrainer.export.segments import Segment

_HARNESS_ONLY = ("token_budget", "sampler_logps")
"""Arguments of the harness that change memory or the record, and nothing that is learnt."""
_LORA = {
    "lora_r": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.0,
    "lora_target_modules": "all-linear",
    "use_rslora": False,
}
_PEFT_NAMES = {"lora_r": "r", "lora_target_modules": "target_modules", "use_rslora": "use_rslora"}
_INLINED = ("rewards", "advantages", "loss")
_WIDTH = 112


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """What the script needs to know besides its stages."""

    title: str
    task: str
    base: str
    """A hub id, or the name of a folder beside the script where `base_is_folder`."""
    base_is_folder: bool
    device: str
    threads: int


def train_script(path: Sequence[Segment], workspaces: Mapping[str, Path], facts: ScriptFacts) -> str:
    """The script's text.

    Args:
        path: the stages from the base model on.
        workspaces: by node, the folder that holds its harness/.
        facts: model, task, device.

    Raises:
        ConfigError: a stage cannot be written as plain TRL; the message names what it is.
    """
    for segment in path:
        _check(segment)
    inliner = Inliner(workspaces[path[-1].workspace])
    task = inliner.add(*_task_class(inliner.root, facts.task), frozenset({"verify"}))
    hooks, kinds = _hooks(path, inliner, workspaces)
    shaping = _shaping(path, inliner)
    for need in ("LOGITS", "SAMPLER_LOGPS"):
        if _asks_for(inliner, hooks, need):
            raise ConfigError(
                f"a hook of the path needs {need.lower()}, which only the harness's own trainer has"
            )
    whole = _asks_for(inliner, hooks, "WHOLE_GROUPS")
    if whole:
        inliner.imports.add("from trl.trainer.utils import split_tensor_dict")
    if kinds:
        inliner.imports.add("from types import SimpleNamespace as Seen")
    definitions = [inliner.text(), f"TASK = {task}()"]
    if shaping:
        definitions.append(
            "SHAPING = {" + ", ".join(f"{ref!r}: {name}" for ref, name in shaping.items()) + "}"
        )
    arguments = [_arguments(segment, facts.device) for segment in path]
    common = _common(arguments)
    rows = [
        _stage(segment, given, common, hooks, sum(item.steps for item in path[:place]))
        for place, (segment, given) in enumerate(zip(path, arguments, strict=True))
    ]
    lora, limit = (
        any(segment.stage["arguments"].get("use_peft") for segment in path),
        _has(path, "max_prompt_length"),
    )
    context = {
        "title": facts.title,
        "base": f'str(HERE / "{facts.base}")' if facts.base_is_folder else repr(facts.base),
        "common": _written(common, 9),
        "stages": [_written(row, 4, lora=lora, limit=limit) for row in rows],
        "definitions": "\n\n".join(definitions),
        "imports": sorted(_merged(inliner.imports)),
        "hooked": bool(hooks),
        "shaping": bool(shaping),
        "reward_hooks": "rewards" in kinds,
        "group_hooks": "group" in kinds,
        "loss_hooks": "loss" in kinds,
        "objective_hooks": "objective" in kinds,
        "scored": bool({"rewards", "group"} & kinds),
        "whole_groups": whole,
        "lora": lora,
        "prompt_limit": limit,
        "device": repr(facts.device),
        "threads": facts.threads if facts.device == "cpu" else 0,
    }
    return _environment().get_template("train.py.j2").render(context)


def _check(segment: Segment) -> None:
    stage = segment.stage
    if stage["algorithm"] != "grpo":
        raise ConfigError(
            f"a stage of algorithm {stage['algorithm']!r} has no form as a plain GRPOTrainer script"
        )
    if stage["fork"]["lr_horizon"] != "node":
        raise ConfigError("fork.lr_horizon = 'study' has no form in TRL's own schedules")
    for hook in stage["hooks"]:
        if hook["point"] not in _INLINED:
            raise ConfigError(
                f"hook {hook['ref']} at {hook['point']!r} needs the harness's own loop; a script can have "
                f"hooks at {', '.join(_INLINED)}"
            )


def _task_class(root: Path, task: str) -> tuple[str, str]:
    """Module and class of a task, from the table of the workspace's registry."""
    path = root / "harness" / "tasks" / "registry.py"
    module = ast.parse(path.read_text(encoding="utf-8"))
    origins = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in module.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if not (isinstance(key, ast.Constant) and key.value == task):
                    continue
                if isinstance(value, ast.Name) and value.id in origins:
                    return origins[value.id]
                if isinstance(value, ast.Constant) and ":" in str(value.value):
                    file, _, name = str(value.value).partition(":")
                    return f"harness.tasks.{file}", name
    raise ConfigError(
        f"the verifier of task {task!r} is not a class of its own in {path}: it has to be copied by hand"
    )


def _hooks(
    path: Sequence[Segment], inliner: Inliner, workspaces: Mapping[str, Path]
) -> tuple[dict[str, str], set[str]]:
    """The class in the script of every hook by its ref, and which inputs they see."""
    names: dict[str, str] = {}
    kinds: set[str] = set()
    for segment in path:
        for hook in segment.stage["hooks"]:
            file, _, name = hook["ref"].partition(":")
            _same_everywhere(file, path, workspaces)
            module = "harness." + file.removesuffix(".py").replace("/", ".")
            names[hook["ref"]] = inliner.add(module, name)
            kinds |= _kinds(hook["point"], inliner.root / "harness" / file, name)
    return names, kinds


def _same_everywhere(file: str, path: Sequence[Segment], workspaces: Mapping[str, Path]) -> None:
    """A hook that was edited between two stages would need two versions in one script."""
    texts = {
        (workspaces[segment.workspace] / "harness" / file).read_bytes()
        for segment in path
        if any(hook["ref"].startswith(f"{file}:") for hook in segment.stage["hooks"])
    }
    if len(texts) > 1:
        raise ConfigError(f"{file} is another one in different stages of the path: a script has room for one")


def _kinds(point: str, file: Path, name: str) -> set[str]:
    """What a hook's class has methods for."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            if point == "rewards":
                found.add("rewards")
            if point == "advantages" and "group" in methods:
                found.add("group")
            if point == "loss" or "tokens" in methods:
                found.add("loss")
            if "objective" in methods:
                found.add("objective")
    return found


def _asks_for(inliner: Inliner, hooks: Mapping[str, str], need: str) -> bool:
    return any(
        f"Need.{need}" in (inliner.root / "harness" / ref.partition(":")[0]).read_text(encoding="utf-8")
        for ref in hooks
    )


def _shaping(path: Sequence[Segment], inliner: Inliner) -> dict[str, str]:
    found = {}
    for segment in path:
        for spec in segment.stage["rewards"]:
            if spec["ref"] != "verifier":
                file, _, name = spec["ref"].partition(":")
                module = "harness." + file.removesuffix(".py").replace("/", ".")
                found[spec["ref"]] = inliner.add(module, name)
    return found


def _arguments(segment: Segment, device: str) -> dict[str, Any]:
    """GRPOConfig's arguments of a stage; what the harness sets for every job is among them."""
    given = {k: v for k, v in segment.stage["arguments"].items() if k not in _HARNESS_ONLY}
    for name in (*_LORA, "use_peft", "max_prompt_length"):
        given.pop(name, None)
    if device == "cpu":
        given |= {"use_cpu": True, "bf16": False, "fp16": False, "gradient_checkpointing": False}
        given["dataloader_pin_memory"] = False
    if segment.forked:
        given["warmup_steps"] = segment.stage["fork"]["rewarmup_steps"]
    if str(given.get("lr_scheduler_type", "linear")) == "constant" and given.get("warmup_steps"):
        given["lr_scheduler_type"] = "constant_with_warmup"
    return {
        **given,
        "max_steps": segment.steps,
        "seed": segment.seed,
        "data_seed": segment.seed,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }


def _common(arguments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = arguments[0]
    return {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in arguments)
    }


def _stage(
    segment: Segment,
    given: Mapping[str, Any],
    common: Mapping[str, Any],
    hooks: Mapping[str, str],
    before: int,
) -> dict[str, Any]:
    stage = segment.stage
    row: dict[str, Any] = {
        "arguments": {name: value for name, value in given.items() if name not in common},
        "horizon": segment.horizon,
        "before": segment.before,
        "before_all": before,
        "rewards": stage["rewards"],
        "optimizer": stage["fork"]["optimizer"] if segment.forked else "reset",
        "reference": stage["fork"]["reference"] if segment.forked else "study_base",
        "sampler": stage["fork"]["sampler"] if segment.forked else "reshuffle",
        "max_prompt_length": stage["arguments"].get("max_prompt_length"),
        "lora": _lora(stage["arguments"]),
    }
    if hooks:
        row["hooks"] = [(hook["point"], _Name(hooks[hook["ref"]]), hook["params"]) for hook in stage["hooks"]]
    return row


def _lora(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    if not arguments.get("use_peft"):
        return None
    return {_PEFT_NAMES.get(name, name): arguments.get(name, default) for name, default in _LORA.items()}


class _Name(str):
    """A name of the script: written without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _written(value: dict[str, Any], indent: int, *, lora: bool = True, limit: bool = True) -> str:
    """A literal, wrapped; keys that no stage has a use for are left out."""
    left_out = ({"lora"} if not lora else set()) | ({"max_prompt_length"} if not limit else set())
    kept = {name: item for name, item in value.items() if name not in left_out}
    items = textwrap.wrap(
        ", ".join(f"{name!r}: {item!r}".replace(" ", "\0") for name, item in kept.items()),
        _WIDTH - indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "{" + f"\n{' ' * (indent + 1)}".join(items).replace("\0", " ") + "}"


def _has(path: Sequence[Segment], argument: str) -> bool:
    return any(segment.stage["arguments"].get(argument) is not None for segment in path)


def _merged(imports: set[str]) -> set[str]:
    """Import lines but for those that the template has."""
    return imports - {"import torch", "from pathlib import Path", "import json", "import gc"}


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,  # a Python script, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
