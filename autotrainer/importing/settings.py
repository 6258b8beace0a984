"""Settings of TRL's GRPOConfig as recipe knobs; the same for scripts and YAML files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotrainer.errors import ConfigError
from autotrainer.importing.found import Found
from autotrainer.recipe.knobs import KNOBS

OURS = frozenset(
    {
        *(
            "output_dir",
            "logging_steps",
            "save_steps",
            "save_strategy",
            "report_to",
            "run_name",
            "push_to_hub",
        ),
        *(
            "eval_strategy",
            "eval_steps",
            "log_completions",
            "bf16",
            "fp16",
            "use_cpu",
            "gradient_checkpointing",
        ),
        *(
            "do_train",
            "do_eval",
            "overwrite_output_dir",
            "logging_strategy",
            "save_total_limit",
            "hub_model_id",
        ),
        *(
            "logging_first_step",
            "remove_unused_columns",
            "disable_tqdm",
            "logging_dir",
            "num_completions_to_print",
        ),
        *("torch_dtype", "dtype", "attn_implementation", "steps_per_generation"),
    }
)
"""What the harness decides by itself, or what changes no result; dropped with a remark."""

_BY_ARGUMENT = {knob.argument: knob for knob in KNOBS.values() if knob.argument}
_BATCH = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_generations",
    "generation_batch_size",
)
_NORMAL = {True: "group", False: "none"}


def take_trl(settings: Mapping[str, Any], found: Found) -> None:
    """Put TRL's arguments where they belong; each ends as a knob, a remark, or as not understood."""
    for name, value in settings.items():
        if name in _BATCH:
            continue
        if name in OURS:
            found.remark(f"{name} = {value!r} is the study's own business: dropped")
        elif name == "scale_rewards" and isinstance(value, bool):
            found.recipe[name] = _NORMAL[value]
        elif name == "max_steps" and isinstance(value, int) and value >= 2:
            found.search["steps"] = value
        elif name == "seed" and isinstance(value, int):
            found.values["seed"] = value
        elif name == "warmup_ratio":
            steps = settings.get("max_steps")
            if isinstance(steps, int) and steps > 0:
                found.recipe["warmup_steps"] = round(float(value) * steps)
                found.remark(f"warmup_ratio = {value} of {steps} steps: warmup_steps")
            else:
                found.not_understood(name, value)
        elif name in _BY_ARGUMENT:
            _knob(name, value, found)
        else:
            found.not_understood(name, value)
    _take_batch(settings, found)


def _knob(name: str, value: Any, found: Found) -> None:
    knob = _BY_ARGUMENT[name]
    try:
        number = float(value) if isinstance(value, str) and knob.kind is float else value
        found.recipe[knob.name] = knob.check(number)
    except (ConfigError, ValueError) as error:
        found.not_understood(name, f"{value!r} ({error})")


def _take_batch(settings: Mapping[str, Any], found: Found) -> None:
    """One step's completions: the device's batch times accumulation; prompts are that by the group's size."""
    group = settings.get("num_generations", 8 if any(name in settings for name in _BATCH) else None)
    if isinstance(group, int):
        if "num_generations" in settings:
            _knob("num_generations", group, found)
        device = settings.get("per_device_train_batch_size", 8)
        accumulate = settings.get("gradient_accumulation_steps", 1)
        if isinstance(device, int) and isinstance(accumulate, int) and group > 0:
            batch = device * accumulate
            found.recipe["prompts_per_step"] = max(1, batch // group)
            found.remark(
                f"{device} x {accumulate} completions a step in groups of {group}: prompts_per_step = "
                f"{max(1, batch // group)} (on one device)"
            )
    if "generation_batch_size" in settings:
        found.not_understood("generation_batch_size", settings["generation_batch_size"])
