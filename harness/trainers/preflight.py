"""Recipes that cannot work, refused before a model is loaded: the field, its value, the rule. Frozen.

What TRL refuses by itself is left to it; here is what it lets through, or refuses without saying which
argument to change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.contract import ContractError, JobSpec, StageSpec
from harness.processes import world

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")
_CHOICES = {
    "loss_type": LOSS_TYPES,
    "importance_sampling_level": ("token", "sequence"),
    "scale_rewards": ("group", "batch", "none", True, False),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
}
_LEVELS = {"luspo": "sequence", "vespo": "token"}
"""The importance sampling level that a loss is defined with, where it is one only."""
_ABOVE_0: dict[str, tuple[float, str]] = {
    "temperature": (math.inf, "must be a finite number above 0: a group needs samples that differ"),
    "top_p": (1.0, "must be above 0 and at most 1"),
    "top_entropy_quantile": (1.0, "must be above 0 and at most 1"),
}
_AT_LEAST_0 = (
    "learning_rate",
    "beta",
    "epsilon",
    "epsilon_high",
    "max_grad_norm",
    "weight_decay",
    "warmup_steps",
)
_AT_LEAST_1 = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "num_iterations",
    "max_completion_length",
)


def check_arguments(arguments: Mapping[str, Any], where: str) -> None:
    """Refuse TRL arguments that are out of range or contradict each other.

    Raises:
        ContractError: naming field, value and rule.
    """
    for name, allowed in _CHOICES.items():
        if name in arguments and arguments[name] not in allowed:
            listed = ", ".join(str(one) for one in allowed)
            raise ContractError(f"{where}.{name} = {arguments[name]!r} must be one of {listed}")
    for name, (high, rule) in _ABOVE_0.items():
        value: Any = arguments.get(name)
        if name in arguments and not (_number(value) and 0 < value <= high):
            raise ContractError(f"{where}.{name} = {value!r} {rule}")
    for name in _AT_LEAST_0:
        value = arguments.get(name)
        if value is not None and not (_number(value) and value >= 0):
            raise ContractError(f"{where}.{name} = {value!r} must be a finite number of at least 0")
    for name in _AT_LEAST_1:
        value = arguments.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ContractError(f"{where}.{name} = {value!r} must be a whole number of at least 1")
    _check_groups(arguments, where)
    _check_batch(arguments, world(), where)
    _check_loss(arguments, where)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_groups(arguments: Mapping[str, Any], where: str) -> None:
    group = arguments.get("num_generations", 8)
    if not isinstance(group, int) or isinstance(group, bool) or group < 2:
        raise ContractError(
            f"{where}.num_generations = {group!r} must be a whole number of at least 2: an advantage "
            "compares completions of one prompt"
        )


def _check_batch(arguments: Mapping[str, Any], processes: int, where: str) -> None:
    """Every process has whole groups, and a step has completions of one generation."""
    micro, group = arguments.get("per_device_train_batch_size", 8), arguments.get("num_generations", 8)
    accumulation = arguments.get("gradient_accumulation_steps", 1)
    parts = arguments.get("steps_per_generation") or accumulation
    if micro * parts % group:
        raise ContractError(
            f"{where}.per_device_train_batch_size x steps_per_generation = {micro} x {parts} = "
            f"{micro * parts} must be a multiple of num_generations = {group}"
            + (f", on each of the {processes} processes" if processes > 1 else "")
        )
    if parts % accumulation:
        raise ContractError(
            f"{where}.steps_per_generation = {parts} must be a multiple of gradient_accumulation_steps = "
            f"{accumulation}: a step would mix two batches"
        )


def _check_loss(arguments: Mapping[str, Any], where: str) -> None:
    loss = arguments.get("loss_type", "dapo")
    level = arguments.get("importance_sampling_level", "token")
    if (wanted := _LEVELS.get(loss)) is not None and level != wanted:
        raise ContractError(
            f"{where}.importance_sampling_level = {level!r} does not fit loss_type = {loss!r}, which is "
            f"defined with {wanted!r}"
        )
    low, high = arguments.get("epsilon", 0.2), arguments.get("epsilon_high")
    delta = arguments.get("delta")
    bound = 1 + (low if high is None else high)
    if delta is not None and delta <= bound:
        raise ContractError(
            f"{where}.delta = {delta!r} must be above 1 + epsilon_high = {bound:g}: it bounds the ratio from "
            "above, beyond the clip range"
        )


def check_job(job: JobSpec, stage: StageSpec, beta: float, place: int) -> None:
    """Refuse a reference that cannot be loaded.

    Raises:
        ContractError: beta is above 0 and the reference is neither a folder of a model nor a hub id.
    """
    reference = {"study_base": job.model.path, "parent": job.start.path}.get(
        stage.fork.reference, stage.fork.reference
    )
    if not beta or reference is None:
        return
    path = Path(reference)
    if (path.is_absolute() or path.exists()) and not (path / "config.json").is_file():
        raise ContractError(
            f"stages[{place}].arguments.beta = {beta!r} needs a reference, and {reference} is no folder "
            "of a model: it has no config.json"
        )


def check_cap(cap: int, shortest_answer: int, where: str) -> None:
    """Refuse a cap that no right answer fits under.

    Args:
        cap: max_completion_length, in tokens.
        shortest_answer: tokens of the shortest gold completion that was looked at, end token included.
        where: the stage's arguments.

    Raises:
        ContractError: the cap is below it.
    """
    if cap < shortest_answer:
        raise ContractError(
            f"{where}.max_completion_length = {cap} is below {shortest_answer}, the tokens of the shortest "
            "right answer with its end token: no completion could be right"
        )
