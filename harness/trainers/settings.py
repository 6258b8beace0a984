"""Settings that can be changed while a run trains, by their TRL names."""

from __future__ import annotations

import math
from typing import Any

from trl.trainer.utils import add_fused_lm_head

from harness.trainers.lora import base_of
from harness.trainers.schedule import set_learning_rate


def current(trainer: Any) -> dict[str, float]:
    """The settings in force. `learning_rate` is the one that the schedule scales."""
    return {
        "learning_rate": float(trainer.lr_scheduler.base_lrs[0])
        if trainer.lr_scheduler is not None
        else float(trainer.args.learning_rate),
        "beta": float(trainer.beta),
        "epsilon": float(trainer.epsilon_low),
        "epsilon_high": float(trainer.epsilon_high),
        "temperature": float(trainer.temperature),
        "max_grad_norm": float(trainer.args.max_grad_norm),
        "entropy_coef": float(trainer.entropy_coef),
        **({"entropy_target": float(trainer.args.entropy_target)} if trainer.use_adaptive_entropy else {}),
    }


def change(trainer: Any, name: str, value: Any) -> float:
    """Change one setting from the next step on and return its value.

    A new temperature reaches generation and loss alike. A learning rate goes on along the run's schedule.

    Raises:
        ValueError: the setting is unknown, cannot be changed in this run, or the value is not allowed.
    """
    known = current(trainer)
    if name not in known:
        if name == "entropy_target":
            raise ValueError("entropy_target has no effect: the run began without use_adaptive_entropy")
        raise ValueError(f"{name} cannot be changed in flight; what can: {', '.join(known)}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} = {value!r} must be a finite number of at least 0")
    number = float(value)
    _CHANGES[name](trainer, number)
    return number


def _learning_rate(trainer: Any, value: float) -> None:
    set_learning_rate(trainer.optimizer, trainer.lr_scheduler, value)


def _beta(trainer: Any, value: float) -> None:
    if value and trainer.args.beta == 0.0:
        raise ValueError("beta cannot be changed in flight: the run began with 0 and has no reference model")
    if not value and trainer.args.beta:
        raise ValueError("beta cannot be set to 0 in flight: TRL would drop the kl metric; set a small value")
    trainer.beta = value


def _epsilon(trainer: Any, value: float) -> None:
    # As in TRL's own arguments: without an epsilon_high of its own the upper bound follows.
    if trainer.args.epsilon_high is None:
        trainer.epsilon_high = value
    trainer.epsilon_low = value


def _epsilon_high(trainer: Any, value: float) -> None:
    trainer.args.epsilon_high = trainer.epsilon_high = value


def _temperature(trainer: Any, value: float) -> None:
    if not value:
        raise ValueError("temperature = 0 is not allowed: a group needs samples that differ")
    if trainer.use_vllm:
        raise ValueError("temperature cannot be changed in flight with vLLM: its engine took it at the start")
    trainer.temperature = value
    trainer.generation_config.temperature = value
    trainer.generation_kwargs["temperature"] = value
    # The fused head has the temperature baked in; a new head goes over the old one.
    for model in (trainer.accelerator.unwrap_model(trainer.model), trainer.ref_model):
        if model is not None:
            add_fused_lm_head(
                base_of(model),
                temperature=value,
                cast_lm_head_to_fp32=trainer.args.cast_lm_head_to_fp32,
                outputs=("log_probs", "entropy"),
            )


def _max_grad_norm(trainer: Any, value: float) -> None:
    trainer.args.max_grad_norm = value


def _entropy_coef(trainer: Any, value: float) -> None:
    if trainer.use_adaptive_entropy:
        raise ValueError("entropy_coef cannot be changed in flight: use_adaptive_entropy moves it")
    trainer.entropy_coef = value
    trainer._entropy_bonus_enabled = value != 0.0


def _entropy_target(trainer: Any, value: float) -> None:
    trainer.args.entropy_target = value


_CHANGES = {
    "learning_rate": _learning_rate,
    "beta": _beta,
    "epsilon": _epsilon,
    "epsilon_high": _epsilon_high,
    "temperature": _temperature,
    "max_grad_norm": _max_grad_norm,
    "entropy_coef": _entropy_coef,
    "entropy_target": _entropy_target,
}
