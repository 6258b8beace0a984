"""GRPOConfig from a stage's TRL arguments and those that the harness owns."""

from __future__ import annotations

import difflib
from dataclasses import fields
from pathlib import Path
from typing import Any

from trl.trainer.grpo_config import GRPOConfig

from harness.contract import ContractError, JobSpec, StageSpec

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
    "sync_ref_model": "an exact resume would lose the moved reference",
}
"""Arguments that job.json may not set, and where the wish belongs instead."""


def grpo_config(job: JobSpec, stage: StageSpec, place: int, scratch: Path) -> GRPOConfig:
    """The stage's GRPOConfig.

    Raises:
        ContractError: an argument is unknown, owned by the harness, or refused by TRL; the message names it.
    """
    where = f"stages[{place}].arguments"
    _check_names(stage.arguments, where)
    cpu = job.resources.device == "cpu"
    asked = dict(stage.arguments)
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
    known = {item.name for item in fields(GRPOConfig) if item.init}
    for name in sorted(arguments):
        if name in OWNED:
            raise ContractError(f"{where}.{name} is not allowed: {OWNED[name]}")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ": see the fields of trl.GRPOConfig"
            raise ContractError(f"{where}.{name} is not an argument of TRL's GRPOConfig{hint}")
