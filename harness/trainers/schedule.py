"""The learning rate of a stage, step by step: TRL's own schedule, placed by the fork rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import get_scheduler

from harness.contract import ContractError


@dataclass(frozen=True, slots=True)
class LrPlan:
    """Where a stage stands on its schedule.

    The factor on the learning rate at the stage's step i (from 0) is ramp(i) x schedule(offset + i), where
    the schedule has `warmup` steps of warm-up (None: those of the stage's arguments) and ends at offset + the
    stage's steps, and ramp(i) = min(1, i / rewarmup). As everywhere in transformers the first step of a
    warm-up has factor 0.
    """

    warmup: int | None = None
    rewarmup: int = 0
    offset: int = 0


def lr_factor(args: Any, plan: LrPlan, steps: int) -> Callable[[int], float]:
    """The factor by the stage's step. `constant` with a warm-up means `constant_with_warmup`.

    Raises:
        ContractError: the schedule is not a function of the step alone.
    """
    name = str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))
    total = plan.offset + steps
    warmup = args.get_warmup_steps(total) if plan.warmup is None else plan.warmup
    if name == "constant" and warmup:
        name = "constant_with_warmup"
    # A throw-away optimiser: some schedules read the learning rate that they start from.
    throwaway = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=args.learning_rate)
    schedule = get_scheduler(
        name,
        throwaway,
        num_warmup_steps=warmup,
        num_training_steps=total,
        scheduler_specific_kwargs=args.lr_scheduler_kwargs,
    )
    if not isinstance(schedule, torch.optim.lr_scheduler.LambdaLR):
        raise ContractError(f"lr_scheduler_type = {name!r} is not allowed: it depends on more than the step")
    base = schedule.lr_lambdas[0]

    def factor(step: int) -> float:
        ramp = min(1.0, step / plan.rewarmup) if plan.rewarmup else 1.0
        return ramp * float(base(plan.offset + step))

    return factor


def build_scheduler(
    args: Any, optimizer: torch.optim.Optimizer, plan: LrPlan, steps: int, done: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """The scheduler of a stage that has `done` of its `steps` behind it."""
    factor = lr_factor(args, plan, steps)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(done + step))


def set_learning_rate(optimizer: Any, scheduler: Any, learning_rate: float) -> None:
    """Change the learning rate of a run in flight: its schedule goes on, scaled to the new value."""
    scheduler.base_lrs = [learning_rate] * len(scheduler.base_lrs)
    rates = [
        learning_rate * scheduler.lr_lambdas[place](scheduler.last_epoch)
        for place in range(len(scheduler.base_lrs))
    ]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
        group["initial_lr"] = learning_rate
    scheduler._last_lr = rates
