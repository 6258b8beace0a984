"""The box that blind tuners search: the knobs that people tune, around the careful recipe's values.

A learning rate from a tenth to ten times, sampling temperature, KL and entropy coefficients, objective,
larger groups at an equal batch, and a longer cap on completions. A point is a dictionary of plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from autotrainer.planners.build import clamp
from autotrainer.planners.moves import larger_groups
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import Stage

BETAS = (0.0, 0.001, 0.003, 0.01, 0.03)
BONUSES = (0.0, 0.003, 0.01)
TEMPERATURES = (0.7, 1.2)
LOSSES = ("dapo", "grpo", "dr_grpo", "bnpo")
CAPS = (1.0, 1.5, 2.0)
RATE_FACTOR = 10.0

Point = dict[str, Any]


def rates(careful: Stage) -> tuple[float, float]:
    """The lowest and the highest learning rate."""
    rate = float(careful.knobs["learning_rate"])
    return clamp("learning_rate", rate / RATE_FACTOR), clamp("learning_rate", rate * RATE_FACTOR)


def draw(careful: Stage, rng: Random) -> Point:
    """A point at random: uniform on each axis, the learning rate on its logarithm."""
    low, high = rates(careful)
    return {
        "learning_rate": low * (high / low) ** rng.random(),
        "temperature": rng.uniform(*TEMPERATURES),
        "beta": rng.choice(BETAS),
        "entropy_coef": rng.choice(BONUSES),
        "loss_type": rng.choice(LOSSES),
        "larger_groups": rng.random() < 0.5,
        "cap": rng.choice(CAPS),
    }


def knobs_of(careful: Stage, point: Mapping[str, Any]) -> dict[str, KnobValue]:
    """A point as knobs to set in the careful stage; what is at its default there is left out."""
    knobs: dict[str, KnobValue] = {
        "learning_rate": float(f"{point['learning_rate']:.3g}"),
        "temperature": round(float(point["temperature"]), 3),
        "beta": float(point["beta"]),
        "loss_type": str(point["loss_type"]),
    }
    if point["entropy_coef"] or "entropy_coef" in careful.knobs:
        knobs["entropy_coef"] = float(point["entropy_coef"])
    cap = careful.knobs.get("max_completion_length")
    if cap is not None and point["cap"] != 1.0:
        knobs["max_completion_length"] = round(int(cap) * float(point["cap"]))
    return {**knobs, **(larger_groups(careful) if point["larger_groups"] else {})}


def point_of(careful: Stage, stage: Stage) -> Point:
    """A stage's knobs as a point; a value between two choices is the nearer one."""
    ratio = float(stage.knobs.get("max_completion_length", 1)) / float(
        careful.knobs.get("max_completion_length", 1)
    )
    return {
        "learning_rate": float(stage.knobs["learning_rate"]),
        "temperature": float(stage.knobs.get("temperature", 1.0)),
        "beta": _nearest(BETAS, float(stage.knobs.get("beta", 0.0))),
        "entropy_coef": _nearest(BONUSES, float(stage.knobs.get("entropy_coef", 0.0))),
        "loss_type": str(stage.knobs.get("loss_type", "dapo")),
        "larger_groups": stage.knobs["num_generations"] != careful.knobs["num_generations"],
        "cap": _nearest(CAPS, ratio),
    }


def inside(careful: Stage, point: Mapping[str, Any]) -> bool:
    """Whether a point lies in the box; skills may have gone beyond it."""
    (low, high), (cold, hot) = rates(careful), TEMPERATURES
    return (
        low <= point["learning_rate"] <= high
        and cold <= point["temperature"] <= hot
        and point["loss_type"] in LOSSES
    )


def _nearest(choices: tuple[float, ...], value: float) -> float:
    return min(choices, key=lambda choice: abs(choice - value))
