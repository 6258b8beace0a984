"""A plain TRL script with the arguments of a job.json: what is written without the harness.

`python -m experiments.overhead.plain job.json figures.json` trains the job's one stage with TRL's
GRPOTrainer, its own sampler, its own log every step, no checkpoints, and writes the seconds of each step.
`python -m experiments.overhead.model FOLDER` builds the random SmolLM2-135M that both sides train.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from harness.tasks import load
from harness.tasks.files import read_items


class Clock(TrainerCallback):  # type: ignore[misc]
    """The wall seconds from one step's end to the next."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.ends: list[float] = []

    def on_train_begin(self, *arguments: Any, **keywords: Any) -> None:
        """The first step begins."""
        self.ends.append(time.perf_counter())

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **keywords: Any) -> None:
        """A step has ended and was logged."""
        if "train_runtime" not in logs:
            self.ends.append(time.perf_counter())


def main(arguments: list[str]) -> None:
    """Train and write the figures."""
    job = json.loads(Path(arguments[0]).read_text())
    stage, task = job["stages"][0], load(job["task"])
    torch.set_num_threads(job["resources"]["threads"])

    def accuracy(completions: list[Any], answer: list[str], **_: Any) -> list[float | None]:
        return [
            task.verify(one[0]["content"], gold, {}).score
            for one, gold in zip(completions, answer, strict=True)
        ]

    tokenizer = AutoTokenizer.from_pretrained(job["model"]["path"], padding_side="left")
    items = read_items(Path(job["data"]["train"]))
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(job["model"]["path"], dtype=torch.float32),
        reward_funcs=[accuracy],
        args=GRPOConfig(
            output_dir=str(Path(job["output"]) / "scratch"),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            max_steps=stage["steps"],
            seed=job["seed"],
            report_to=[],
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
            **stage["arguments"],
        ),
        train_dataset=Dataset.from_list(
            [{"prompt": list(item.prompt), "answer": item.answer} for item in items]
        ),
        processing_class=tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    clock = Clock()
    trainer.add_callback(clock)
    trainer.train()
    rows = [row for row in trainer.state.log_history if "loss" in row]
    figures = {
        "seconds": [b - a for a, b in itertools.pairwise(clock.ends)],
        "grad_norm": [row["grad_norm"] for row in rows],
        "tokens": rows[-1]["num_tokens"],
    }
    Path(arguments[1]).write_text(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
