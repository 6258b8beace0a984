"""Levers: the arguments of a training stage as the simulated dynamics see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from autotrainer.recipe.careful import careful_rate

CAREFUL_GROUP = 8


@dataclass(frozen=True, slots=True)
class Levers:
    """What the dynamics depend on.

    `rate` is in units of the model's careful learning rate, `completions` in units of the careful batch,
    `cap_growth` the log of the cap over the task's.
    """

    rate: float
    warmup: int
    rewarmup: int
    decay: str
    group: int
    prompts: int
    completions: float
    temperature: float
    beta: float
    bonus: float
    clip_high: float
    iterations: int
    loss: str
    scale: str
    max_grad_norm: float
    cap_growth: float
    mask_cut: bool
    hooks: frozenset[str]

    @classmethod
    def of_stage(cls, stage: Mapping[str, Any], model: str, cap: int, prompts: int, forked: bool) -> Levers:
        """The levers of a stage of job.json.

        Args:
            stage: as in docs/contract.md, with TRL's own argument names.
            model: the model's name, which decides the careful learning rate.
            cap: the task's own cap, in tokens.
            prompts: prompts a step of the careful recipe.
            forked: whether the stage starts from a checkpoint.
        """
        given: Mapping[str, Any] = stage["arguments"]
        group = int(given.get("num_generations", CAREFUL_GROUP))
        batch = int(given["per_device_train_batch_size"]) * int(given["gradient_accumulation_steps"])
        length = int(given.get("max_completion_length", cap))
        fork = stage.get("fork", {})
        hooks: Sequence[Mapping[str, Any]] = stage.get("hooks", ())
        return cls(
            rate=float(given["learning_rate"]) / careful_rate(model),
            warmup=int(given.get("warmup_steps", 0)),
            rewarmup=int(fork.get("rewarmup_steps", 0)) if forked else 0,
            decay=str(given.get("lr_scheduler_type", "constant")),
            group=group,
            prompts=max(1, batch // group),
            completions=batch / (prompts * CAREFUL_GROUP),
            temperature=float(given.get("temperature", 1.0)),
            beta=float(given.get("beta", 0.0)),
            bonus=float(given.get("entropy_coef", 0.0)),
            clip_high=float(given.get("epsilon_high", given.get("epsilon", 0.2))),
            iterations=int(given.get("num_iterations", 1)),
            loss=str(given.get("loss_type", "dapo")),
            scale=str(given.get("scale_rewards", "group")),
            max_grad_norm=float(given.get("max_grad_norm", 1.0)),
            cap_growth=log(length / cap),
            mask_cut=bool(given.get("mask_truncated_completions", False)),
            hooks=frozenset(str(hook["ref"]).partition(":")[0] for hook in hooks),
        )

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of the step, from 1, in units of the careful one."""
        ramp = max(self.warmup if self.rewarmup == 0 else self.rewarmup, 1)
        rate = self.rate * min(1.0, step / ramp)
        left = 1 - (step - 1) / max(1, steps)
        if self.decay == "linear":
            return rate * left
        return rate * (0.5 - 0.5 * _cos_pi(left)) if self.decay == "cosine" else rate


def _cos_pi(share: float) -> float:
    from math import cos, pi

    return cos(pi * share)
