"""Where a stage starts: at the base model, exactly at a checkpoint, or at its weights by the fork rules."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.checkpoints import Checkpoint, TrainingState
from harness.contract import ContractError, JobSpec, StageSpec
from harness.processes import world
from harness.trainers.arguments import take_apart
from harness.trainers.lora import ADAPTER
from harness.trainers.schedule import LrPlan

MAX_LOGPROB_GAP = 0.05
"""Nats a token by which a loaded policy may differ from what its parent was; more fails the node."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """How a stage starts. What is None is begun anew."""

    stage: int
    mode: str
    model_path: str
    reference_path: str
    seed: int
    done: int = 0
    """Steps of the stage that lie behind it; above 0 only for an exact resume."""
    path_steps: int = 0
    """Optimiser steps between the base model and the stage's first step."""
    tokens: int = 0
    lr: LrPlan = field(default_factory=LrPlan)
    optimizer: str = "fresh"
    sampler: str = "fresh"
    rewarmup_steps: int = 0
    settings: dict[str, float] = field(default_factory=dict)
    entropy_control: list[float] = field(default_factory=list)
    parent: Checkpoint | None = None
    base_path: str | None = None
    """Of a stage with LoRA: the weights under the adapter, where they are not those of model_path."""
    adapter: Path | None = None
    """The adapter's weights to begin with; None is a new adapter."""


def plan_start(job: JobSpec) -> StagePlan:
    """The plan of the first stage that is to run.

    Raises:
        ContractError: the checkpoint does not fit the job.
    """
    if job.start.mode == "base":
        return StagePlan(0, "base", job.model.path, job.model.path, job.seed)
    checkpoint = Checkpoint(Path(str(job.start.path)))
    return plan_fork(job, 0, checkpoint) if job.start.mode == "weights" else _plan_exact(job, checkpoint)


def plan_fork(job: JobSpec, place: int, checkpoint: Checkpoint) -> StagePlan:
    """The plan of a stage that takes a checkpoint's weights, under the stage's own fork rules.

    Raises:
        ContractError: the rules ask to keep what the checkpoint does not have.
    """
    stage, fork, state = job.stages[place], job.stages[place].fork, checkpoint.training_state()
    base_path, adapter = _adapter(stage, state, checkpoint, place)
    if fork.optimizer == "keep":
        _check_optimizer(stage, state, checkpoint, place)
        _check_adapter(stage, state, adapter, place)
    if fork.lr_horizon == "study":
        plan = LrPlan(rewarmup=fork.rewarmup_steps, offset=state.path_steps)
    else:
        plan = LrPlan(warmup=fork.rewarmup_steps)
    reference = {"study_base": job.model.path, "parent": str(checkpoint.folder)}.get(
        fork.reference, fork.reference
    )
    return StagePlan(
        place,
        "weights",
        str(checkpoint.folder),
        reference,
        job.seed + state.path_steps,
        path_steps=state.path_steps,
        lr=plan,
        optimizer=fork.optimizer,
        sampler=fork.sampler,
        rewarmup_steps=fork.rewarmup_steps,
        parent=checkpoint,
        base_path=base_path,
        adapter=adapter,
    )


def _plan_exact(job: JobSpec, checkpoint: Checkpoint) -> StagePlan:
    state = checkpoint.training_state()
    _check_stages(job, state)
    if state.processes not in (0, world()):
        raise ContractError(
            f"start.mode 'exact': the checkpoint is of {state.processes} processes, the job has {world()}; "
            "use mode 'weights'"
        )
    stage, before = job.stages[state.stage], state.path_steps - state.stage_step
    if state.stage_step >= stage.steps:
        if state.stage + 1 == len(job.stages):
            raise ContractError(
                f"start.mode 'exact': checkpoint {checkpoint.folder} is at step {state.step} and the job has "
                f"{job.steps}: there is nothing left to do"
            )
        return plan_fork(job, state.stage + 1, checkpoint)
    if not state.boundary:
        raise ContractError(
            f"start.mode 'exact': checkpoint {checkpoint.folder} was written in the middle of a generation "
            "batch (the last step of its stage); an exact resume needs one at a generation boundary"
        )
    if checkpoint.kind != "full":
        raise ContractError(f"start.mode 'exact' needs a checkpoint of kind full, not {checkpoint.kind!r}")
    return StagePlan(
        state.stage,
        "exact",
        str(checkpoint.folder),
        state.reference_path or job.model.path,
        job.seed + before,
        done=state.stage_step,
        path_steps=before,
        tokens=state.tokens,
        lr=LrPlan(**state.lr_plan),
        optimizer="keep",
        sampler="continue",
        settings=state.settings,
        entropy_control=state.entropy_control,
        parent=checkpoint,
        base_path=state.adapter.get("base"),
        adapter=_adapter_file(checkpoint) if state.adapter else None,
    )


def _check_optimizer(stage: StageSpec, state: TrainingState, checkpoint: Checkpoint, place: int) -> None:
    where = f"stages[{place}].fork.optimizer = 'keep'"
    if not (checkpoint.folder / "state" / "optimizer.pt").is_file():
        raise ContractError(f"{where}: checkpoint {checkpoint.folder} has no optimiser state; use 'reset'")
    asked = stage.arguments.get("optim", state.optim)
    if asked != state.optim:
        raise ContractError(f"{where}: the optimiser was {state.optim} and is {asked} now; use 'reset'")


def _adapter_file(checkpoint: Checkpoint) -> Path:
    return checkpoint.folder / "state" / ADAPTER


def _adapter(
    stage: StageSpec, state: TrainingState, checkpoint: Checkpoint, place: int
) -> tuple[str | None, Path | None]:
    """Base and adapter of a stage that goes on with its parent's; else None, None: the merged weights."""
    lora = take_apart(stage, place).lora
    if lora is None or not state.adapter or lora.as_json() != state.adapter["lora"]:
        return None, None
    return str(state.adapter["base"]), _adapter_file(checkpoint)


def _check_adapter(stage: StageSpec, state: TrainingState, adapter: Path | None, place: int) -> None:
    """Adam's state is of the parent's parameters: an adapter's, or all weights."""
    lora = take_apart(stage, place).lora
    if adapter is None and (lora is not None or state.adapter):
        was = f"LoRA with {state.adapter['lora']}" if state.adapter else "full weights"
        now = f"LoRA with {lora.as_json()}" if lora is not None else "full weights"
        raise ContractError(
            f"stages[{place}].fork.optimizer = 'keep': the parent trained {was}, this stage trains {now}: "
            "other parameters; use 'reset'"
        )


def _check_stages(job: JobSpec, state: TrainingState) -> None:
    """An exact resume has equal stages; the last one may have another number of steps."""
    mine = [asdict(stage) for stage in job.stages]
    if len(mine) != len(state.stages):
        raise ContractError(
            f"start.mode 'exact': {len(mine)} stages, and {len(state.stages)} in the checkpoint's"
        )
    for place, (one, other) in enumerate(zip(mine, state.stages, strict=True)):
        last = place == len(mine) - 1
        ignored: set[str] = ({"steps"} if last else set()) | ({"fork"} if place == 0 else set())
        for name in sorted(set(one) - ignored):
            if (difference := _difference(one[name], other.get(name), f"stages[{place}].{name}")) is not None:
                raise ContractError(f"start.mode 'exact': {difference}; use mode 'weights' to change it")


def _difference(mine: Any, theirs: Any, where: str) -> str | None:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted(mine.keys() | theirs.keys()):
            if (found := _difference(mine.get(key), theirs.get(key), f"{where}.{key}")) is not None:
                return found
        return None
    return None if mine == theirs else f"{where} is {mine!r}, and was {theirs!r} in the checkpoint's job"
