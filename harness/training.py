"""Builds the trainer of a stage, measures its start, and trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PrinterCallback

from harness.checkpoints import Checkpoint
from harness.contract import ContractError
from harness.probe import sample_batch
from harness.session import Session
from harness.stage import StageRun
from harness.starts import MAX_LOGPROB_GAP, StagePlan, plan_fork
from harness.trainers.arguments import grpo_config
from harness.trainers.grpo import GrpoTrainer
from harness.trainers.hooks import HookSet, RunFacts
from harness.trainers.rewards import VERIFIER, Rewards
from harness.trainers.sampler import BatchShape, PromptSampler


class ForkGapError(ValueError):
    """A fork does not begin with its parent's policy."""


def run_stages(session: Session, plan: StagePlan) -> None:
    """Train the planned stage and those after it, each from the checkpoint of the one before."""
    while True:
        run_stage(session, plan)
        session.end_stage()
        if session.stop is not None or plan.stage + 1 == len(session.job.stages):
            return
        plan = plan_fork(session.job, plan.stage + 1, Checkpoint(session.checkpoints / str(session.steps)))


def run_stage(session: Session, plan: StagePlan) -> None:
    """Train one stage to its end, or until the job is asked to stop.

    Raises:
        ContractError: the stage's arguments, rewards or start do not fit.
        HookError: a hook cannot be used, or returned what is not allowed.
        ForkGapError: the loaded policy is not the parent's.
    """
    job, spec = session.job, session.job.stages[plan.stage]
    with session.heart.phase("load"):
        args: Any = grpo_config(job, spec, plan.stage, Path(job.output) / "scratch")
        args.seed = args.data_seed = plan.seed
        rewards = Rewards(
            spec.rewards,
            session.task,
            {item.id: item for item in session.train_items},
            args.max_completion_length,
        )
        hooks = HookSet(
            spec.hooks,
            RunFacts(
                reference=args.beta != 0.0,
                sampler_logps=args.use_vllm,
                steps_per_generation=args.steps_per_generation,
                verifier=VERIFIER,
                components=tuple(rewards.weights),
            ),
        )
        rewards.add(hooks.adds)
        args.reward_weights = list(rewards.weights.values())
        sampler = _sampler(session, plan, args)
        stage = StageRun(session, plan, hooks, rewards, sampler, [item.id for item in session.train_items])
        model = load_model(plan.model_path, job.resources.device)
        trainer = _trainer(session, plan, stage, args, model)
        session.flag.raise_if_set()
    with session.heart.phase("probe"):
        measured = measure_start(session, plan, trainer)
        if session.start is None:
            session.start = measured
    session.flag.raise_if_set()
    with session.heart.phase("train"):
        trainer.train()
    session.recorder.flush()


def load_model(path: str, device: str) -> Any:
    """The weights of a folder or hub id, in float32.

    bf16 is a type to compute in, and on disk: updates of the size that reinforcement learning makes are lost
    when weights are rounded to it.
    """
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return model.to(device)


def _sampler(session: Session, plan: StagePlan, args: Any) -> PromptSampler:
    steps = session.job.stages[plan.stage].steps - plan.done
    repeats = args.num_iterations * args.steps_per_generation
    shape = BatchShape(args.generation_batch_size // args.num_generations, args.num_generations, repeats)
    batches = -(-steps * args.gradient_accumulation_steps // repeats)
    try:
        return PromptSampler(len(session.train_items), shape, batches, plan.seed, bool(args.shuffle_dataset))
    except ValueError as error:
        raise ContractError(f"stages[{plan.stage}].arguments: {error}") from None


def _trainer(session: Session, plan: StagePlan, stage: StageRun, args: Any, model: Any) -> GrpoTrainer:
    rows = [{"prompt": list(item.prompt), "prompt_id": item.id} for item in session.train_items]
    # TRL loads the reference from where it thinks the policy came from; by the fork rules it is elsewhere.
    model.config._name_or_path = plan.reference_path
    trainer = GrpoTrainer(
        stage=stage,
        model=model,
        reward_funcs=stage.rewards.functions,
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=session.tokenizer,
    )
    model.config._name_or_path = plan.model_path
    trainer.remove_callback(PrinterCallback)
    return trainer


def measure_start(session: Session, plan: StagePlan, trainer: Any) -> dict[str, Any]:
    """Measure the policy before its first update; result.json's `start`.

    Raises:
        ForkGapError: the log-probs of the fixed batch differ from the parent's by more than MAX_LOGPROB_GAP.
    """
    probe, model = session.probe, trainer.model
    gap: float | None = None
    if plan.parent is None:
        probe.batch = sample_batch(
            model, session.tokenizer, session.probe_items, session.job.probe.max_completion_length
        )
    else:
        gap = probe.take_batch(plan.parent, model)
        if not gap <= MAX_LOGPROB_GAP:
            raise ForkGapError(
                f"the policy loaded from {plan.model_path} differs from its parent's by {gap:.3g} nats a "
                f"token on the fixed probe batch; at most {MAX_LOGPROB_GAP} is allowed"
            )
    probe.remember_start(model)
    reference = plan.reference_path if trainer.beta else None
    return {
        "mode": plan.mode,
        "model_path": plan.model_path,
        "optimizer": plan.optimizer,
        "reference": reference,
        "sampler": plan.sampler,
        "rewarmup_steps": plan.rewarmup_steps,
        "logprob_gap": gap,
        "probe_accuracy": probe.accuracy(model),
        "kl_before_first_update": probe.kl_reference(model, trainer.ref_model),
    }
