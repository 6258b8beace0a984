"""Recipes into job.json's stages: knobs become TRL's own arguments."""

from __future__ import annotations

from typing import Any

from autotrainer.recipe.knobs import KNOBS
from autotrainer.recipe.recipe import Recipe, Stage, stage_to_json

MICRO_BATCH = 16
"""Completions in one forward and backward pass on a GPU; the rest is accumulated."""
_PROMPTS, _GROUP = 8, 8


def trl_arguments(stage: Stage, device: str) -> dict[str, Any]:
    """The GRPOConfig arguments of a stage on `cpu` or `cuda`; a knob that is not set is left to TRL.

    One optimiser step sees prompts_per_step x num_generations completions: per_device_train_batch_size x
    gradient_accumulation_steps is always that product, and one generation feeds one step (times
    num_iterations).
    """
    arguments: dict[str, Any] = {
        KNOBS[name].argument: value for name, value in stage.knobs.items() if KNOBS[name].argument
    }
    if "lora_r" in arguments:
        arguments |= {"use_peft": True, "lora_alpha": 2 * int(arguments["lora_r"])}
    group = int(stage.knobs.get("num_generations", _GROUP))
    prompts = int(stage.knobs.get("prompts_per_step", _PROMPTS))
    batch = prompts * group
    micro = _passes(prompts, group, int(stage.knobs.get("micro_batch", 0)), device)
    arguments |= {
        "num_generations": group,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": batch // micro,
        "steps_per_generation": batch // micro,
        "use_cpu": device == "cpu",
        "bf16": device != "cpu",
        "gradient_checkpointing": device != "cpu",
    }
    return arguments


def job_stages(recipe: Recipe, device: str) -> list[dict[str, Any]]:
    """The recipe's stages in job.json's form (docs/contract.md)."""
    return [_job_stage(stage, device) for stage in recipe.stages]


def _job_stage(stage: Stage, device: str) -> dict[str, Any]:
    value = stage_to_json(stage)
    del value["knobs"]
    return {**value, "arguments": trl_arguments(stage, device)}


def _passes(prompts: int, group: int, asked: int, device: str) -> int:
    """Completions in one pass: as asked, as far as the batch can be cut so; else by the device's default."""
    if asked:
        return _largest_divisor(prompts * group, asked)
    return prompts * group if device == "cpu" else _micro_batch(prompts, group)


def _micro_batch(prompts: int, group: int) -> int:
    """Whole groups where they fit, else an equal part of one group."""
    if group > MICRO_BATCH:
        return _largest_divisor(group, MICRO_BATCH)
    return group * _largest_divisor(prompts, MICRO_BATCH // group)


def _largest_divisor(number: int, limit: int) -> int:
    return next(size for size in range(min(number, limit), 0, -1) if number % size == 0)
