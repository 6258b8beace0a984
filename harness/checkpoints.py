"""Checkpoints: a model folder in Hugging Face form with `state/` beside it; written aside and renamed."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.contract import SCHEMA_VERSION, ContractError, read_json, write_json
from harness.trainers.lora import is_lora, save_adapter, save_merged


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The plain numbers of a checkpoint: where the run stood and what was in force."""

    job_id: str
    step: int
    """Of the job; `stage_step` within its stage."""
    stage: int
    stage_step: int
    path_steps: int
    """Optimiser steps since the base model, over all nodes of the path."""
    tokens: int
    boundary: bool
    """Whether no completion was left over for further updates; only then an exact resume is exact."""
    optim: str
    lr_plan: dict[str, Any]
    reference_path: str | None
    settings: dict[str, float]
    """What was changed in flight, by TRL's names."""
    entropy_control: list[float]
    kl_reference: float
    stages: list[dict[str, Any]] = field(default_factory=list)
    adapter: dict[str, Any] = field(default_factory=dict)
    """Of a stage with LoRA: `lora`, its arguments, and `base`, the path of the weights under it."""
    processes: int = 0
    """How many the job had; 0 where it does not matter."""


class Checkpoint:
    """A checkpoint on disk."""

    def __init__(self, folder: Path) -> None:
        """Open a checkpoint.

        Raises:
            ContractError: the folder is none.
        """
        self.folder = folder
        if not (folder / "checkpoint.json").is_file():
            raise ContractError(f"start.path {folder} is not a checkpoint: it has no checkpoint.json")
        about = read_json(folder / "checkpoint.json")
        self.kind, self.step = str(about.get("kind")), int(about.get("step", 0))

    def training_state(self) -> TrainingState:
        """The numbers.

        Raises:
            ContractError: the checkpoint has none, or of another version.
        """
        path = self.folder / "state" / "training.json"
        if not path.is_file():
            raise ContractError(f"checkpoint {self.folder} has no state: it is of kind {self.kind!r}")
        try:
            return TrainingState(**read_json(path))
        except TypeError as error:
            raise ContractError(f"{path}: {error}") from None

    def load(self, name: str) -> Any:
        """The content of state/<name>.pt, or None where there is none; nothing in it is executed."""
        path = self.folder / "state" / f"{name}.pt"
        return torch.load(path, map_location="cpu", weights_only=True) if path.is_file() else None


def save_checkpoint(
    folder: Path, model: Any, tokenizer: Any, training: TrainingState, tensors: dict[str, Any]
) -> Path:
    """Write a full checkpoint as folder/<step>; one that is there is kept.

    Args:
        folder: the attempt's checkpoints/.
        model: saved with `save_pretrained`, as safetensors; one with an adapter is saved merged, and the
            adapter beside it.
        tokenizer: saved beside it.
        training: the plain numbers.
        tensors: the other states by name; None is left out.
    """
    target = folder / str(training.step)
    if target.exists():
        return target
    aside = folder / f".{training.step}.{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    state = aside / "state"
    state.mkdir(parents=True)
    if is_lora(model):
        save_merged(model, aside)
        save_adapter(model, state)
    else:
        model.save_pretrained(aside)
    tokenizer.save_pretrained(aside)
    for name, value in tensors.items():
        if value is not None:
            torch.save(value, state / f"{name}.pt")
    write_json(state / "training.json", asdict(training))
    write_json(
        aside / "checkpoint.json",
        {
            "schema_version": SCHEMA_VERSION,
            "step": training.step,
            "stage": training.stage,
            "kind": "full",
        },
    )
    for path in [*aside.rglob("*"), aside]:
        _fsync(path)
    os.replace(aside, target)
    _fsync(folder)
    return target


def list_checkpoints(folder: Path) -> list[dict[str, Any]]:
    """The finished checkpoints of an attempt, as result.json has them."""
    found = []
    for path in folder.glob("*/checkpoint.json"):
        if path.parent.name.isdigit():
            found.append({"step": int(path.parent.name), "kind": str(read_json(path)["kind"])})
    return sorted(found, key=lambda item: int(item["step"]))


def rng_state() -> dict[str, Any]:
    """All global random number generators, as plain values and tensors."""
    version, words, gauss = random.getstate()
    _, keys, place, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(words), gauss],
        "numpy": [
            torch.from_numpy(np.asarray(keys).astype(np.int64)),
            int(place),
            int(has_gauss),
            float(cached),
        ],
        "cpu": torch.random.get_rng_state(),
        "cuda": torch.cuda.random.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_rng(state: dict[str, Any]) -> None:
    """Set all global random number generators."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    keys, place, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), place, has_gauss, cached))
    torch.random.set_rng_state(state["cpu"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.random.set_rng_state_all(state["cuda"])


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
