"""GRPOConfig from a stage's TRL arguments and those that the harness owns."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trl.trainer.grpo_config import GRPOConfig

from harness.contract import ContractError, JobSpec, StageSpec
from harness.trainers.lora import LoraSpec, take_lora
from harness.trainers.preflight import check_arguments

OWNED = {
    "output_dir": "the job has its own folder",
    "overwrite_output_dir": "the job has its own folder",
    "report_to": "metrics.jsonl is the record",
    "run_name": "metrics.jsonl is the record",
    "logging_dir": "metrics.jsonl is the record",
    "logging_strategy": "every step is logged",
    "logging_steps": "every step is logged",
    "logging_first_step": "every step is logged",
    "log_completions": "rollouts/ is the record",
    "log_completions_hub_repo": "rollouts/ is the record",
    "num_completions_to_print": "rollouts/ is the record",
    "disable_tqdm": "job.log is read by programs",
    "save_strategy": "set checkpoints.every",
    "save_steps": "set checkpoints.every",
    "save_total_limit": "set checkpoints.every",
    "save_only_model": "set checkpoints.every",
    "load_best_model_at_end": "the control plane chooses checkpoints",
    "resume_from_checkpoint": "set start",
    "ignore_data_skip": "set start",
    "eval_strategy": "set probe.every",
    "eval_steps": "set probe.every",
    "eval_on_start": "set probe.every",
    "do_eval": "set probe.every",
    "max_steps": "set the stage's steps",
    "num_train_epochs": "set the stage's steps",
    "seed": "set the job's seed",
    "data_seed": "set the job's seed",
    "reward_weights": "set the weights in rewards",
    "model_init_kwargs": "set model",
    "push_to_hub": "jobs have no network",
    "hub_model_id": "jobs have no network",
    "hub_token": "jobs have no network",
    "remove_unused_columns": "rewards need the columns",
    "auto_find_batch_size": "groups have to stay whole",
    "dataloader_num_workers": "the sampler follows the training loop",
    "generation_batch_size": "set per_device_train_batch_size and steps_per_generation",
    "fsdp": "checkpoints and probes need whole weights in every process",
    "fsdp_config": "checkpoints and probes need whole weights in every process",
    "deepspeed": "checkpoints and probes need whole weights in every process",
    "parallelism_config": "checkpoints and probes need whole weights in every process",
    "sync_ref_model": "an exact resume would lose the moved reference",
}
"""Arguments that job.json may not set, and where the wish belongs instead."""


HARNESS = ("max_prompt_length", "token_budget", "sampler_logps")
"""Arguments of the harness's own: see StageArguments."""


@dataclass(frozen=True, slots=True)
class StageArguments:
    """A stage's arguments, taken apart."""

    trl: dict[str, Any]
    """For GRPOConfig."""
    lora: LoraSpec | None
    max_prompt_length: int | None
    """Longer prompts, in tokens with the chat template, are left out of the training set; None keeps all."""
    token_budget: int | None
    """The most tokens of a forward pass, padding between its rows included; None: the whole micro-batch."""
    sampler_logps: bool
    """Whether generation without vLLM has log-probs: for `sampler/*`, and the check before the first step."""


def take_apart(stage: StageSpec, place: int) -> StageArguments:
    """The arguments of a stage by who takes them.

    Raises:
        ContractError: one of LoRA's or the harness's own is not allowed.
    """
    where, asked = f"stages[{place}].arguments", dict(stage.arguments)
    lora = take_lora(asked, where)
    own = {name: asked.pop(name, None) for name in HARNESS}
    for name in ("max_prompt_length", "token_budget"):
        value = own[name]
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ContractError(f"{where}.{name} = {value!r} must be a whole number of at least 1, or null")
    if own["sampler_logps"] not in (None, True, False):
        raise ContractError(f"{where}.sampler_logps = {own['sampler_logps']!r} must be true or false")
    return StageArguments(
        asked, lora, own["max_prompt_length"], own["token_budget"], bool(own["sampler_logps"])
    )


def grpo_config(job: JobSpec, stage: StageSpec, place: int, scratch: Path) -> GRPOConfig:
    """The stage's GRPOConfig.

    Raises:
        ContractError: an argument is unknown, owned by the harness, or refused by TRL; the message names it.
    """
    where = f"stages[{place}].arguments"
    asked = take_apart(stage, place).trl
    _check_names(asked, where)
    check_arguments(asked, where)
    cpu = job.resources.device == "cpu"
    if bool(asked.pop("use_cpu", cpu)) != cpu:
        raise ContractError(f"{where}.use_cpu contradicts resources.device = {job.resources.device!r}")
    if cpu:
        for name in ("bf16", "fp16", "gradient_checkpointing"):
            if asked.pop(name, False):
                raise ContractError(f"{where}.{name} = true is not allowed with resources.device 'cpu'")
        asked |= {
            "bf16": False,
            "fp16": False,
            "gradient_checkpointing": False,
            "dataloader_pin_memory": False,
        }
    # Every parameter has a gradient in every step; looking for others would cost a walk of the graph.
    asked.setdefault("ddp_find_unused_parameters", False)
    try:
        return GRPOConfig(
            output_dir=str(scratch),
            use_cpu=cpu,
            max_steps=stage.steps,
            seed=job.seed,
            report_to=[],
            logging_strategy="steps",
            logging_steps=1,
            save_strategy="no",
            eval_strategy="no",
            disable_tqdm=True,
            reward_weights=[reward.weight for reward in stage.rewards],
            **asked,
        )
    except (ValueError, TypeError) as error:
        raise ContractError(f"{where}: TRL refuses them: {error}") from error


def _check_names(arguments: dict[str, Any], where: str) -> None:
    known = {item.name for item in fields(GRPOConfig) if item.init} | set(HARNESS)
    known |= {"use_peft", *LoraSpec.__dataclass_fields__}
    for name in sorted(arguments):
        if name in OWNED:
            raise ContractError(f"{where}.{name} is not allowed: {OWNED[name]}")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ": see the fields of trl.GRPOConfig"
            raise ContractError(f"{where}.{name} is not an argument of TRL's GRPOConfig{hint}")
