"""Weight averaging: one checkpoint of several, for a merge: `python -m harness.average SPEC.json`. Frozen.

SPEC.json: `{schema_version, paths: [checkpoint folders], shares: [numbers] | null, output}`. The new
checkpoint holds sum_i share_i * weights_i, shares normalised to 1 (model soups,
https://arxiv.org/abs/2203.05482), in float32, of equal architectures. It is of kind "weights": a start in
mode "weights" with fork.optimizer "reset" takes it; optimiser, sampler and hooks have no average.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from harness.checkpoints import Checkpoint
from harness.contract import SCHEMA_VERSION, ContractError, read_json, write_json
from harness.probe import ProbeBatch, token_logps


def average(paths: Sequence[Path], shares: Sequence[float] | None, output: Path) -> Path:
    """Write the average of checkpoints and return its folder.

    Args:
        paths: finished checkpoints; those of LoRA stages are merged already.
        shares: one for each, above 0; None for equal ones.
        output: the folder to write, which must not be there.

    Raises:
        ContractError: fewer than two checkpoints, wrong shares, an output that is there, or weights that
            differ in names or shapes.
    """
    weights = _shares(paths, shares)
    if output.exists():
        raise ContractError(f"output {output} is there already")
    parents = [Checkpoint(path) for path in paths]
    states = [parent.training_state() for parent in parents]
    aside = output.with_name(f".{output.name}.{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    (aside / "state").mkdir(parents=True)
    model: Any = AutoModelForCausalLM.from_pretrained(paths[0], dtype=torch.float32)
    model.load_state_dict(_mean(paths, weights), strict=False)
    model.save_pretrained(aside)
    for path in paths[0].iterdir():
        if path.is_file() and not (aside / path.name).exists() and path.name != "checkpoint.json":
            shutil.copyfile(path, aside / path.name)
    newest = max(states, key=lambda state: state.path_steps)
    state = replace(
        newest,
        job_id="average",
        tokens=sum(one.tokens for one in states),
        boundary=True,
        optim="",
        settings={},
        entropy_control=[],
        stages=[],
        adapter={},
        processes=0,
    )
    write_json(aside / "state" / "training.json", asdict(state))
    if (probe := parents[0].load("probe")) is not None:
        batch = ProbeBatch.from_state(probe["batch"], torch.device("cpu"))
        kept = {"batch": batch.state_dict(), "policy_logps": token_logps(model, batch)}
        torch.save(kept, aside / "state" / "probe.pt")
    about = {"schema_version": SCHEMA_VERSION, "step": newest.step, "stage": newest.stage, "kind": "weights"}
    write_json(aside / "checkpoint.json", about)
    os.replace(aside, output)
    return output


def _shares(paths: Sequence[Path], shares: Sequence[float] | None) -> list[float]:
    if len(paths) < 2:
        raise ContractError(f"paths = {[str(path) for path in paths]!r} must be at least two checkpoints")
    given = [1.0] * len(paths) if shares is None else list(shares)
    if len(given) != len(paths) or not all(math.isfinite(one) and one > 0 for one in given):
        raise ContractError(
            f"shares = {given!r} must be {len(paths)} numbers above 0, one for each checkpoint"
        )
    return [one / sum(given) for one in given]


def _mean(paths: Sequence[Path], shares: Sequence[float]) -> dict[str, torch.Tensor]:
    """The weighted sum of weights, parent by parent, so that two sets are in memory at a time."""
    total: dict[str, torch.Tensor] = {}
    for path, share in zip(paths, shares, strict=True):
        own = _weights(path)
        if not total:
            total = {name: torch.zeros_like(value, dtype=torch.float32) for name, value in own.items()}
        shapes = {name: value.shape for name, value in own.items()}
        if shapes != {name: value.shape for name, value in total.items()}:
            raise ContractError(
                f"{path} has other weights than {paths[0]}: only equal architectures can be averaged"
            )
        for name, value in own.items():
            total[name] += share * value.float()
    return total


def _weights(path: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for shard in sorted(path.glob("*.safetensors")):
        found |= load_file(shard)
    return found


def main(arguments: list[str]) -> int:
    """Average as a SPEC.json says and return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m harness.average SPEC.json\n")
        return 2
    try:
        spec = read_json(Path(arguments[0]))
        average([Path(path) for path in spec["paths"]], spec.get("shares"), Path(spec["output"]))
    except (ContractError, OSError, KeyError) as error:
        sys.stderr.write(f"{arguments[0]}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
