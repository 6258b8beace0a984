"""The knobs that a planner may turn: bounds, scale, unit and role of each, and the TRL argument behind it.

Roles: a capacity knob only grows along a path (a prior that a finding may overrule), a regulariser goes both
ways, a structure knob changes the objective. Bounds are those inside which the literature or a trial has seen
training work; a value outside is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from autotrainer.errors import ConfigError

KnobValue: TypeAlias = bool | int | float | str


class Role(StrEnum):
    """What turning a knob does to a run."""

    CAPACITY = "capacity"
    REGULARISER = "regulariser"
    STRUCTURE = "structure"


class Scale(StrEnum):
    """How distances between values of a knob are measured."""

    LINEAR = "linear"
    LOG = "log"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob: `argument` is the TRL argument it sets, or empty where compile.py derives several from it."""

    name: str
    role: Role
    scale: Scale
    kind: type
    low: float = 0.0
    high: float = 0.0
    choices: tuple[KnobValue, ...] = ()
    unit: str = ""
    argument: str = ""
    restarts_adam: bool = False

    @property
    def allowed(self) -> str:
        """The allowed values, for a person."""
        if self.choices:
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        return f"a {'number' if self.kind is float else 'whole number'} from {self.low:g} to {self.high:g}"

    def check(self, value: object) -> KnobValue:
        """The value as this knob's type.

        Raises:
            ConfigError: the value is of another kind or outside the bounds.
        """
        if self.choices:
            for choice in self.choices:
                if type(value) is type(choice) and value == choice:
                    return choice
            raise ConfigError(f"{self.name} = {value!r} is not allowed: it must be {self.allowed}")
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if (
            number is None
            or (self.kind is int and number != int(number))
            or not self.low <= number <= self.high
        ):
            raise ConfigError(f"{self.name} = {value!r} is not allowed: it must be {self.allowed}")
        return int(number) if self.kind is int else float(number)


def _number(
    name: str,
    role: Role,
    scale: Scale,
    kind: type,
    low: float,
    high: float,
    argument: str = "",
    unit: str = "",
    restarts_adam: bool = False,
) -> Knob:
    return Knob(name, role, scale, kind, low, high, (), unit, argument, restarts_adam)


def _choice(name: str, *choices: KnobValue, argument: str) -> Knob:
    return Knob(
        name,
        Role.STRUCTURE,
        Scale.CHOICE,
        type(choices[0]),
        choices=choices,
        argument=argument,
        restarts_adam=True,
    )


_REG, _CAP, _LOG, _LIN = Role.REGULARISER, Role.CAPACITY, Scale.LOG, Scale.LINEAR

_ALL = (
    _number("learning_rate", _REG, _LOG, float, 1e-8, 1e-1, "learning_rate", restarts_adam=True),
    _number("beta", _REG, _LIN, float, 0.0, 1.0, "beta", "KL coefficient"),
    _number("epsilon", _REG, _LIN, float, 0.01, 1.0, "epsilon", "ratio"),
    _number("epsilon_high", _REG, _LIN, float, 0.01, 10.0, "epsilon_high", "ratio"),
    _number("temperature", _REG, _LIN, float, 0.1, 2.0, "temperature"),
    _number("entropy_coef", _REG, _LIN, float, 0.0, 0.1, "entropy_coef", "1/nat"),
    _number("max_grad_norm", _REG, _LOG, float, 0.01, 100.0, "max_grad_norm"),
    _number("weight_decay", _REG, _LIN, float, 0.0, 1.0, "weight_decay"),
    _number("warmup_steps", _REG, _LIN, int, 0, 1000, "warmup_steps", "steps"),
    _number("num_iterations", _REG, _LIN, int, 1, 16, "num_iterations", "updates per batch"),
    _number("num_generations", _CAP, _LOG, int, 2, 256, "num_generations", "rollouts per prompt", True),
    _number("prompts_per_step", _CAP, _LOG, int, 1, 4096, "", "prompts", True),
    _number("max_completion_length", _CAP, _LOG, int, 1, 131072, "max_completion_length", "tokens"),
    _number("micro_batch", Role.STRUCTURE, _LOG, int, 1, 4096, "", "completions in one pass"),
    _number("lora_r", _CAP, _LOG, int, 1, 1024, "lora_r", "rank; full weights where it is not set", True),
    _choice("loss_type", "dapo", "grpo", "dr_grpo", "bnpo", "cispo", "sapo", argument="loss_type"),
    _choice("scale_rewards", "group", "batch", "none", argument="scale_rewards"),
    _choice("importance_sampling_level", "token", "sequence", argument="importance_sampling_level"),
    _choice("mask_truncated_completions", False, True, argument="mask_truncated_completions"),
    _choice("lr_scheduler_type", "constant", "linear", "cosine", argument="lr_scheduler_type"),
)

KNOBS: Mapping[str, Knob] = MappingProxyType({knob.name: knob for knob in _ALL})


def knob(name: str) -> Knob:
    """The knob of that name.

    Raises:
        ConfigError: there is none; the message lists the known ones.
    """
    try:
        return KNOBS[name]
    except KeyError:
        raise ConfigError(f"unknown knob {name!r}: known are {', '.join(sorted(KNOBS))}") from None
