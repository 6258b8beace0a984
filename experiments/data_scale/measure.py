"""A million rows: seconds until the first step and peak memory, beside a thousand rows of the same kind.

`python -m experiments.data_scale.measure [--rows 1000000] [--work DIR]` writes parquet shards of sums,
trains three steps with a length filter from a cold cache and again from the warm one, and records
experiments/results/data-scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autotrainer.bench.record import write_result
from harness.tasks.api import Item
from harness.tasks.files import write_items
from harness.training_set import write_shards

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = {
    "learning_rate": 1e-5,
    "lr_scheduler_type": "constant",
    "num_generations": 8,
    "max_completion_length": 8,
    "per_device_train_batch_size": 32,
    "max_prompt_length": 16,
}


def items(rows: int) -> Iterator[Item]:
    """Different sums, one after another."""
    for number in range(rows):
        a, b = divmod(number, 1000)
        yield Item.of(({"role": "user", "content": f"{a}+{b}=?"},), str(a + b), {"level": "sum"})


def job(work: Path, shards: Path, output: Path) -> Path:
    """Write a job.json of three steps and return its path."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    value = {
        "schema_version": 1,
        "job_id": "scale.1",
        "study": "scale",
        "node": "n001",
        "attempt": 1,
        "seed": 0,
        "model": {"name": "tiny", "path": str(ROOT / "autotrainer/models/tiny"), "dtype": "float32"},
        "task": "math",
        "start": {"mode": "base"},
        "stages": [
            {
                "algorithm": "grpo",
                "steps": 3,
                "arguments": ARGUMENTS,
                "hooks": [],
                "rewards": [{"ref": "verifier"}],
                "fork": {},
            }
        ],
        "data": {"train": str(shards), "probe": str(work / "probe.jsonl"), "manifest": ""},
        "probe": {"every": 10**6, "n": 1, "max_completion_length": 8},
        "checkpoints": {"every": 10**6},
        "rollouts": {"every": 1, "max_rows": 32},
        "limits": {},
        "resources": {"device": "cpu", "devices": [0], "threads": 1},
        "output": str(output),
        "frozen": {},
    }
    (output / "job.json").write_text(json.dumps(value))
    return output / "job.json"


def measure(work: Path, shards: Path, name: str) -> dict[str, Any]:
    """Run the job and return seconds to the end of step 1, seconds of steps 2 and 3, peak memory."""
    path = job(work, shards, work / name)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(work / "cache"),
    }
    begun = time.time()
    with subprocess.Popen(
        [sys.executable, "-m", "harness.run", str(path)], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL
    ) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    result = json.loads((work / name / "result.json").read_text())
    if child.returncode or result["status"] != "completed":
        raise RuntimeError(f"{name}: {result['reason']}")
    times = [json.loads(line)["time"] for line in (work / name / "metrics.jsonl").read_text().splitlines()]
    return {
        "first_step_s": times[0] - begun,
        "later_steps_s": times[-1] - times[0],
        "peak_gib": usage.ru_maxrss / 2**20,
    }


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--work", type=Path, default=Path("runs/data-scale"))
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(work / "cache", ignore_errors=True)
    write_items(work / "probe.jsonl", list(items(1)))
    rows: list[dict[str, Any]] = []
    for count in (1000, options.rows):
        shards = work / f"shards-{count}"
        if not shards.is_dir():
            write_shards(shards, items(count))
        for cache in ("cold", "warm"):
            rows.append({"rows": count, "cache": cache, **measure(work, shards, f"job-{count}-{cache}")})
            print(rows[-1], flush=True)
    small, warm = rows[1], rows[3]
    figures = {
        "rows": options.rows,
        "first_step_s_cold": rows[2]["first_step_s"],
        "first_step_s_warm": warm["first_step_s"],
        "peak_gib": warm["peak_gib"],
        "peak_gib_of_1000_rows": small["peak_gib"],
        "extra_gib": warm["peak_gib"] - small["peak_gib"],
    }
    command = ["python", "-m", "experiments.data_scale.measure", "--rows", str(options.rows)]
    print(write_result("data-scale", {"figures": figures, "rows": rows}, command))


if __name__ == "__main__":
    main()
