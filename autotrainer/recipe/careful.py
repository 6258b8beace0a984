"""The careful recipe: what a careful person would run without a search; the baseline that search has to beat.

GRPO with few levers pulled: full weights, strictly on-policy (one update a batch), no KL penalty, DAPO's
token-level loss, sampling at temperature 1, a constant learning rate after a short warm-up. Two sizes are
documented:

- the shipped tiny model (about a million parameters, on a CPU core): 8 prompts x 8 completions a step,
  learning rate 1e-4. At 3e-5 it learns more slowly, at 3e-4 it degrades, at 1e-3 it collapses within 20
  steps.
- models of hub size: 64 prompts x 8 completions a step, learning rate 1e-6.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from autotrainer.errors import ConfigError
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import Recipe, Stage

TINY_PARAMETERS = 10_000_000
"""Models up to this size learn with the tiny model's recipe."""

_COMMON: Mapping[str, KnobValue] = MappingProxyType(
    {
        "beta": 0.0,
        "epsilon": 0.2,
        "temperature": 1.0,
        "num_generations": 8,
        "num_iterations": 1,
        "max_grad_norm": 1.0,
        "loss_type": "dapo",
        "scale_rewards": "group",
        "lr_scheduler_type": "constant",
    }
)
_TINY: Mapping[str, KnobValue] = MappingProxyType(
    {"learning_rate": 1e-4, "prompts_per_step": 8, "warmup_steps": 3}
)
_HUB: Mapping[str, KnobValue] = MappingProxyType(
    {"learning_rate": 1e-6, "prompts_per_step": 64, "warmup_steps": 10}
)


def default_steps(model_name: str) -> int:
    """Optimiser steps of one search node where nobody asked for another number."""
    return 60 if model_name == "tiny" else 200


def careful_rate(model_name: str, parameters: int | None = None) -> float:
    """The documented learning rate of a model with full weights."""
    small = model_name == "tiny" or (parameters is not None and parameters <= TINY_PARAMETERS)
    return float((_TINY if small else _HUB)["learning_rate"])


def careful_recipe(
    model_name: str,
    task: str,
    seed: int,
    steps: int,
    max_completion_length: int,
    overrides: Mapping[str, KnobValue] | None = None,
    parameters: int | None = None,
) -> Recipe:
    """The careful recipe of a model and task: one GRPO stage from the base model.

    Args:
        model_name: the model's name; `tiny` is the shipped one.
        task: the task's name.
        seed: the recipe's seed.
        steps: optimiser steps.
        max_completion_length: the task's cap, in tokens.
        overrides: knobs that the user set; they win.
        parameters: the model's number of parameters, where it is known.

    Raises:
        ConfigError: a knob is unknown, out of bounds, or contradicts another one.
    """
    small = model_name == "tiny" or (parameters is not None and parameters <= TINY_PARAMETERS)
    own = _TINY if small else _HUB
    knobs = {**_COMMON, **own, "max_completion_length": max_completion_length, **(overrides or {})}
    stage = Stage(algorithm="grpo", steps=steps, knobs=knobs)
    _check_clip_range(stage.knobs)
    return Recipe(model=model_name, task=task, stages=(stage,), seed=seed)


def _check_clip_range(knobs: Mapping[str, KnobValue]) -> None:
    low, high = knobs["epsilon"], knobs.get("epsilon_high")
    if high is not None and float(high) < float(low):
        raise ConfigError(f"epsilon_high = {high!r} is not allowed: it must be at least epsilon = {low!r}")
