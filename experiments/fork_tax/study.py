"""The fork tax: a fork every 50 steps that changes nothing, against one straight run, on the shipped model.

`python -m experiments.fork_tax.study [--seeds 10] [--steps 200] [--work DIR]` trains both arms from equal
seeds in turns, scores the last checkpoint of each on the same held-out items with the same random numbers,
and records the paired difference in experiments/results/fork-tax.json. A fork in mode `weights` keeps Adam
and the order of prompts, but draws other random numbers than the straight run, so that runs of one seed
part ways: a single difference is noise, their mean is the tax. Nothing is said about other models.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import statistics
from pathlib import Path
from typing import Any

from autotrainer.bench.record import write_result

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "autotrainer" / "models" / "tiny"
EVERY = 50
HELD_OUT = 256
SAMPLES = 4
T_95 = {5: 2.571, 9: 2.262, 19: 2.093}
"""Two-sided 95 % quantiles of Student's t, by degrees of freedom."""
ARGUMENTS = {
    "learning_rate": 1e-4,
    "lr_scheduler_type": "constant",
    "num_generations": 8,
    "max_completion_length": 6,
    "per_device_train_batch_size": 32,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": 1,
}


def train(work: Path, name: str, seed: int, steps: int, start: dict[str, Any]) -> Path:
    """Train one job in this process and return its last checkpoint.

    Raises:
        RuntimeError: the job did not complete.
    """
    from harness.run import main

    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = {
        "schema_version": 1,
        "job_id": name,
        "study": "fork-tax",
        "node": name,
        "attempt": 1,
        "seed": seed,
        "model": {"name": "tiny", "path": str(TINY), "dtype": "float32"},
        "task": "math",
        "start": start,
        "stages": [
            {
                "algorithm": "grpo",
                "steps": steps,
                "arguments": ARGUMENTS,
                "hooks": [],
                "rewards": [{"ref": "verifier"}],
                "fork": {},
            }
        ],
        "data": {"train": str(work / "train.jsonl"), "probe": str(work / "probe.jsonl"), "manifest": ""},
        "probe": {"every": 10**6, "n": 1, "max_completion_length": 6},
        "checkpoints": {"every": 10**6},
        "rollouts": {"every": 10**6, "max_rows": 1},
        "limits": {},
        "resources": {"device": "cpu", "devices": [0], "threads": 1},
        "output": str(folder),
        "frozen": {},
    }
    (folder / "job.json").write_text(json.dumps(job))
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        main([str(folder / "job.json")])
    result = json.loads((folder / "result.json").read_text())
    if result["status"] != "completed":
        raise RuntimeError(f"{name}: {result['reason']}")
    return folder / "checkpoints" / str(steps)


def forked(work: Path, seed: int, steps: int) -> Path:
    """Train in forks of EVERY steps, each from the checkpoint of the one before."""
    start: dict[str, Any] = {"mode": "base"}
    checkpoint = work
    for part in range(steps // EVERY):
        checkpoint = train(work, f"forked-{seed}-{part}", seed, EVERY, start)
        start = {"mode": "weights", "node": "n001", "step": EVERY, "path": str(checkpoint)}
    return checkpoint


def accuracy(checkpoint: Path) -> float:
    """Mean verifier score of sampled completions of held-out items, with the same random numbers always."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from harness.generation import generate
    from harness.tasks import load

    task = load("math")
    items = task.splits({"dev": HELD_OUT}, 0)["dev"]
    found = generate(
        AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32),
        AutoTokenizer.from_pretrained(checkpoint, padding_side="left"),
        [item.prompt for item in items],
        max_new_tokens=6,
        temperature=1.0,
        samples=SAMPLES,
        seed=1,
    )
    scores = [
        task.verify(one.text, item.answer, item.columns).score or 0.0
        for item, group in zip(items, found, strict=True)
        for one in group
    ]
    return sum(scores) / len(scores)


def figure(values: list[float]) -> dict[str, float]:
    """Mean with its 95 % interval."""
    mean, count = statistics.fmean(values), len(values)
    error = statistics.stdev(values) / math.sqrt(count)
    reach = T_95.get(count - 1, 2.0) * error
    return {"mean": mean, "low": mean - reach, "high": mean + reach, "n": count, "standard_error": error}


def main() -> None:
    """Run the study and record it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--work", type=Path, default=Path("runs/fork-tax"))
    options = parser.parse_args()
    from harness.tasks import load
    from harness.tasks.files import write_items

    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    for name, items in load("math").splits({"train": 1024, "probe": 1}, 0).items():
        write_items(work / f"{name}.jsonl", items)
    base, rows = accuracy(TINY), []
    for seed in range(options.seeds):
        straight = accuracy(train(work, f"straight-{seed}", 100 * seed, options.steps, {"mode": "base"}))
        with_forks = accuracy(forked(work, 100 * seed, options.steps))
        rows.append({"seed": seed, "straight": straight, "forked": with_forks})
        print(f"seed {seed}: straight {straight:.4f}, forked {with_forks:.4f}", flush=True)
    difference = figure([row["forked"] - row["straight"] for row in rows])
    figures = {
        "difference": difference,
        "within_one_standard_error": abs(difference["mean"]) <= difference["standard_error"],
        "straight": figure([row["straight"] for row in rows]),
        "forked": figure([row["forked"] for row in rows]),
        "base": base,
        "steps": options.steps,
        "fork_every": EVERY,
    }
    command = ["python", "-m", "experiments.fork_tax.study"]
    command += [f"--seeds={options.seeds}", f"--steps={options.steps}"]
    print(write_result("fork-tax", {"figures": figures, "rows": rows}, command))


if __name__ == "__main__":
    main()
