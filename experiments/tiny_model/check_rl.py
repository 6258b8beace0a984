"""Train the tiny model with TRL's own GRPOTrainer and report what it does to sampled accuracy.

Run `OMP_NUM_THREADS=1 python -m experiments.tiny_model.check_rl MODEL --lr 1e-4 --steps 120`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from experiments.tiny_model.build import accuracy
from harness.tasks import load
from harness.tasks.registry import facts

_SHOWN = ("reward", "frac_reward_zero_std", "entropy", "grad_norm", "completions/mean_length")


def correct(completions: Sequence[Any], answer: Sequence[str], **_: object) -> list[float | None]:
    """Return the verifier's score of each completion."""
    task = load("math")
    return [
        task.verify(messages[0]["content"], reference, {}).score
        for messages, reference in zip(completions, answer, strict=True)
    ]


def run(
    model_path: Path, learning_rate: float, steps: int, seed: int = 0, prompts: int = 8, generations: int = 8
) -> dict[str, Any]:
    """Train; return dev accuracies before and after, some rows of the log and seconds a step."""
    task, sizes = load("math"), facts("math").sizes
    splits = task.splits({"train": sizes["train"], "dev": sizes["dev"]}, 0)
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    before = accuracy(model, tokenizer, splits["dev"])
    rows = [{"prompt": list(item.prompt), "answer": item.answer} for item in splits["train"]]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            learning_rate=learning_rate,
            lr_scheduler_type="constant",
            max_steps=steps,
            per_device_train_batch_size=prompts * generations,
            num_generations=generations,
            max_completion_length=facts("math").max_completion_length,
            temperature=1.0,
            beta=0.0,
            loss_type="dapo",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=seed,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=correct,
            args=config,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
        )
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
    after = accuracy(model, tokenizer, splits["dev"])
    log = [row for row in trainer.state.log_history if "reward" in row]
    rows_shown = sorted({0, 4, 9, 14, 19, 24, len(log) // 2, len(log) - 1})
    shown = [log[index] for index in rows_shown if index < len(log)]
    return {
        "before": before,
        "after": after,
        "seconds_per_step": seconds / steps,
        "log": [{"step": row["step"], **{key: row[key] for key in _SHOWN}} for row in shown],
    }


def main() -> None:
    """Run what the command line says and write the report on stdout as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    shape = (arguments.prompts, arguments.generations)
    report = run(arguments.model, arguments.lr, arguments.steps, arguments.seed, *shape)
    for row in report.pop("log"):
        sys.stdout.write(json.dumps({key: round(value, 4) for key, value in row.items()}) + "\n")
    json.dump(report, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
