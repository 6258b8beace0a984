"""PolicyState: a simulated checkpoint, and the accuracy that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import exp
from statistics import NormalDist
from typing import Any, Self

from autotrainer.simulation.surface import Surface

POINTS = tuple(NormalDist().inv_cdf((place + 0.5) / 9) for place in range(9))
"""Difficulties of nine prompts that stand for all."""
_LENGTH_SPREAD = 0.4


@dataclass(frozen=True, slots=True)
class PolicyState:
    """A simulated policy.

    Attributes:
        skill: logits gained over the base model.
        entropy: exploration left, 1 at the base model.
        drift: KL from the base model, in nats.
        damage: 0 whole; at 1 the policy runs away to nothing.
        length: log of the answers' growth over the base model's.
        hack: share of the gameable reward that is exploited.
        steps: optimiser steps behind it.
        offset: accuracy added in A/A worlds.
    """

    skill: float = 0.0
    entropy: float = 1.0
    drift: float = 0.0
    damage: float = 0.0
    length: float = 0.0
    hack: float = 0.0
    steps: int = 0
    offset: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The state as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The state back from `to_json`."""
        return cls(**value)


def solve_rates(surface: Surface, skill: float, sharpness: float = 1.0) -> tuple[float, ...]:
    """The chance to solve each of nine prompts; a sharper policy is surer both ways."""
    level = surface.start + skill
    return tuple(sigmoid((level - surface.spread * point) * sharpness) for point in POINTS)


def cut_share(surface: Surface, length: float, cap_growth: float) -> float:
    """The share of completions that hit a cap of exp(cap_growth) times the task's."""
    return sigmoid((surface.need + length - cap_growth) / _LENGTH_SPREAD)


def accuracy(surface: Surface, state: PolicyState) -> float:
    """Sampled accuracy on the verifier at the task's evaluation cap (that of the state's own training)."""
    if surface.fixed_deviation is not None:
        grown = 0.33 + 0.2 * (1 - exp(-state.steps / 80))
        return min(1.0, max(0.0, grown + state.offset))
    rates = solve_rates(surface, state.skill)
    whole = (1 - surface.hack_cost * state.hack) * exp(-2.0 * state.damage)
    return sum(rates) / len(rates) * whole * (1 - cut_share(surface, state.length, EVALUATION_ROOM))


EVALUATION_ROOM = 0.9
"""Log of the room the evaluator gives over the task's cap: training's cap does not limit what is scored."""


def sigmoid(value: float) -> float:
    """The logistic function, without overflow."""
    if value < 0:
        grown = exp(max(value, -60.0))
        return grown / (1 + grown)
    return 1 / (1 + exp(-min(value, 60.0)))
