"""Builds the trainer of a stage, measures its start, and trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PrinterCallback
from trl.trainer.utils import add_fused_lm_head

from harness import processes
from harness.checkpoints import Checkpoint
from harness.contract import ContractError
from harness.hooks.api import Need
from harness.probe import sample_batch
from harness.session import Session
from harness.stage import StageRun
from harness.starts import MAX_LOGPROB_GAP, StagePlan, plan_fork
from harness.trainers.arguments import StageArguments, grpo_config, take_apart
from harness.trainers.grpo import GrpoTrainer
from harness.trainers.hooks import HookSet, RunFacts
from harness.trainers.lora import load_adapter
from harness.trainers.preflight import check_cap, check_job
from harness.trainers.rewards import VERIFIER, Rewards
from harness.trainers.sampler import BatchShape, PromptSampler
from harness.training_set import TrainingSet

GOLDS = 256
"""Items whose right answers are looked at for the shortest one."""


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
        given = take_apart(spec, plan.stage)
        args: Any = grpo_config(job, spec, plan.stage, Path(job.output) / "scratch")
        args.seed = args.data_seed = plan.seed
        check_job(job, spec, args.beta, plan.stage)
        items = _items(session, given, args, plan.stage)
        rewards = Rewards(spec.rewards, session.task, items, args.max_completion_length)
        hooks = HookSet(spec.hooks, _facts(args, rewards))
        _check_forward(given, args, hooks, plan.stage)
        rewards.add(hooks.adds)
        args.reward_weights = list(rewards.weights.values())
        sampler = _sampler(session, plan, args, items)
        stage = StageRun(session, plan, hooks, rewards, sampler, items)
        trainer = _trainer(session, plan, stage, args, given)
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


def _items(session: Session, given: StageArguments, args: Any, place: int) -> TrainingSet:
    """The training set without prompts that are too long; a cap that no answer fits under is refused."""
    items, where = session.train_items, f"stages[{place}].arguments"
    if given.max_prompt_length is not None:
        try:
            items = items.filtered(session.tokenizer, given.max_prompt_length)
        except ValueError as error:
            raise ContractError(f"{where}.{error}") from None
    golds = [session.task.gold(item) for item in items[:GOLDS]]
    shortest = min(len(ids) for ids in session.tokenizer(golds, add_special_tokens=False)["input_ids"]) + 1
    check_cap(args.max_completion_length, shortest, where)
    return items


def _check_forward(given: StageArguments, args: Any, hooks: HookSet, place: int) -> None:
    """Refuse arguments of the harness that this run would have to leave out."""
    where = f"stages[{place}].arguments"
    if given.token_budget is not None and hooks.needs(Need.LOGITS):
        raise ContractError(
            f"{where}.token_budget = {given.token_budget} is not allowed with a hook that needs logits: they "
            "are of the whole micro-batch"
        )
    if given.sampler_logps and args.use_transformers_continuous_batching:
        raise ContractError(
            f"{where}.sampler_logps = True is not allowed with use_transformers_continuous_batching, which "
            "returns none"
        )


def _facts(args: Any, rewards: Rewards) -> RunFacts:
    return RunFacts(
        reference=args.beta != 0.0,
        sampler_logps=not args.use_transformers_continuous_batching,
        steps_per_generation=args.steps_per_generation,
        verifier=VERIFIER,
        components=tuple(rewards.weights),
        micro_batch=args.per_device_train_batch_size,
        group_size=args.num_generations,
        logits=True,
        entropy_bonus=bool(args.entropy_coef or args.use_adaptive_entropy),
        processes=processes.world(),
    )


def _sampler(session: Session, plan: StagePlan, args: Any, items: TrainingSet) -> PromptSampler:
    steps = session.job.stages[plan.stage].steps - plan.done
    repeats = args.num_iterations * args.steps_per_generation
    shape = BatchShape(args.generation_batch_size // args.num_generations, args.num_generations, repeats)
    batches = -(-steps * args.gradient_accumulation_steps // repeats)
    try:
        return PromptSampler(len(items), shape, batches, plan.seed, bool(args.shuffle_dataset))
    except ValueError as error:
        raise ContractError(f"stages[{plan.stage}].arguments: {error}") from None


def _trainer(
    session: Session, plan: StagePlan, stage: StageRun, args: Any, given: StageArguments
) -> GrpoTrainer:
    device, base_path = session.job.resources.device, plan.base_path or plan.model_path
    model = load_model(base_path, device)
    # TRL loads the reference from where it thinks the policy came from; by the fork rules it is elsewhere.
    model.config._name_or_path = plan.reference_path
    if given.lora is not None:
        # A new adapter's random weights follow from the stage's seed; Trainer seeds again afterwards.
        torch.manual_seed(plan.seed)
    trainer = GrpoTrainer(
        stage=stage,
        token_budget=given.token_budget,
        model=model,
        reward_funcs=stage.rewards.functions,
        args=args,
        train_dataset=stage.items.dataset(),
        processing_class=session.tokenizer,
        peft_config=None if given.lora is None else given.lora.config(),
    )
    model.config._name_or_path = base_path
    trainer.sampler_logps = given.sampler_logps or stage.hooks.needs(Need.SAMPLER_LOGPS)
    if given.lora is not None:
        if plan.adapter is not None:
            load_adapter(trainer.model, plan.adapter)
        if args.beta and plan.reference_path != base_path:
            _own_reference(trainer, plan.reference_path, device)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _own_reference(trainer: GrpoTrainer, path: str, device: str) -> None:
    """A reference beside the adapter's base: without one TRL takes the policy with its adapter off."""
    reference = load_model(path, device)
    args: Any = trainer.args
    add_fused_lm_head(
        reference,
        temperature=trainer.temperature,
        cast_lm_head_to_fp32=args.cast_lm_head_to_fp32,
        outputs=("log_probs", "entropy"),
    )
    trainer.ref_model = trainer.accelerator.prepare_model(reference, evaluation_mode=True)


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
