"""What a training job costs in the harness, beside a plain TRL script with the same arguments, in turns."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotrainer.bench.base import BenchOptions
from autotrainer.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 2
"""Steps at the beginning of a run that are not counted: caches fill."""
_NEVER = 10**6
SUITES: dict[str, dict[str, Any]] = {
    "tiny": {"steps": 60, "short": 10, "turns": 6, "arguments": {"per_device_train_batch_size": 64}},
    "smollm2-135m": {
        "steps": 7,
        "short": 2,
        "turns": 3,
        "arguments": {"per_device_train_batch_size": 16, "max_completion_length": 24},
    },
}
"""Steps of a run, runs of each side, and what differs from the common arguments, by suite."""
_ARGUMENTS = {
    "learning_rate": 1e-5,
    "lr_scheduler_type": "constant",
    "num_generations": 8,
    "max_completion_length": 6,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": 1,
}


def run(options: BenchOptions) -> dict[str, Any]:
    """Run both sides in turns, the recorder on and no checkpoint or probe between first and last step.

    The time of a step is CPU seconds, since other work on the machine does not count in them: those of a run
    less those of a short run of the same side, over the steps between, so that start and end fall out. Every
    run has one thread. `time_ratio` and `memory_ratio` are medians over turns of harness / plain, with the
    smallest and the largest turn; `extra_ms` the same of the difference in milliseconds a step; `wall_ratio`
    of the median wall seconds of a step. Peak memory is the child's maximum resident set. `--seeds` sets the
    number of turns.

    Raises:
        ConfigError: the suite is unknown, or this is no checkout.
    """
    if not (ROOT / "experiments" / "overhead").is_dir():
        raise ConfigError(
            "the benchmark overhead needs a checkout: the plain script is in experiments/overhead"
        )
    names = [options.suite] if options.suite else list(SUITES)
    if unknown := [name for name in names if name not in SUITES]:
        raise ConfigError(f"unknown suite {unknown[0]!r}: known are {', '.join(SUITES)}")
    figures: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for name in names:
        work = (options.work / "overhead" / name).resolve()
        work.mkdir(parents=True, exist_ok=True)
        model, note = _model(name, work)
        notes.append(f"{name}: {note}")
        turns = options.seeds or int(SUITES[name]["turns"])
        own = [_turn(name, turn, model, work, options) for turn in range(turns)]
        rows += own
        figures[name] = {
            "time_ratio": _figure([row["harness_s"] / row["plain_s"] for row in own]),
            "memory_ratio": _figure([row["harness_gib"] / row["plain_gib"] for row in own]),
            "extra_ms": _figure([1000 * (row["harness_s"] - row["plain_s"]) for row in own]),
            "wall_ratio": _figure([row["harness_wall_s"] / row["plain_wall_s"] for row in own]),
        }
    main = figures.get("smollm2-135m") or figures[names[0]]
    return {
        "figures": {
            "time_ratio": main["time_ratio"],
            "memory_ratio": main["memory_ratio"],
            "extra_ms_tiny": figures.get("tiny", main)["extra_ms"],
            **figures,
        },
        "rows": rows,
        "notes": notes,
        **({"name": f"overhead-{options.suite}"} if options.suite else {}),
    }


def _model(name: str, work: Path) -> tuple[Path, str]:
    """The folder of a suite's model, and what it is."""
    if name == "tiny":
        return ROOT / "autotrainer" / "models" / "tiny", "the shipped model of 1.06 M parameters"
    folder = work / "model"
    if not (folder / "model.safetensors").is_file():
        _child(["-m", "experiments.overhead.model", str(folder)])
    return folder, (
        "SmolLM2-135M by its published configuration with random weights (no hub needed); every completion "
        "runs to the cap, on both sides"
    )


def _turn(name: str, turn: int, model: Path, work: Path, options: BenchOptions) -> dict[str, Any]:
    sides = ("plain", "harness") if turn % 2 == 0 else ("harness", "plain")
    found = {side: _side(side, name, turn, model, work) for side in sides}
    row = {
        "suite": name,
        "turn": turn,
        "first": sides[0],
        "steps": int(SUITES[name]["steps"]),
        "same_gradients": found["plain"]["grad_norm"] == found["harness"]["grad_norm"],
        **{f"{side}_s": found[side]["seconds"] for side in sides},
        **{f"{side}_wall_s": found[side]["wall"] for side in sides},
        **{f"{side}_gib": found[side]["gib"] for side in sides},
    }
    options.progress(
        f"{name} turn {turn + 1}: plain {row['plain_s']:.4f} s and {row['plain_gib']:.3f} GiB, "
        f"harness {row['harness_s']:.4f} s and {row['harness_gib']:.3f} GiB"
    )
    return row


def _side(side: str, name: str, turn: int, model: Path, work: Path) -> dict[str, Any]:
    """CPU seconds of a step on one side, by a short and a long run; the rest is the long one's."""
    short, steps = int(SUITES[name]["short"]), int(SUITES[name]["steps"])
    few, many = (_run(side, name, turn, model, work, count) for count in (short, steps))
    return {**many, "seconds": (many["cpu"] - few["cpu"]) / (steps - short)}


def _run(side: str, name: str, turn: int, model: Path, work: Path, steps: int) -> dict[str, Any]:
    """Train once: CPU seconds, median wall seconds of a step, peak GiB, the gradients' norms."""
    folder = work / f"{side}-{turn}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = folder / "job.json"
    job.write_text(json.dumps(_job(name, turn, model, work, folder, steps)), encoding="utf-8")
    if side == "harness":
        gib, cpu = _child(["-m", "harness.run", str(job)])
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        times = [row["time"] for row in rows]
        # The last step's end has the probe and the checkpoint.
        seconds = [b - a for a, b in itertools.pairwise(times)][SKIPPED - 1 : -1]
        norms = [row["grad_norm"] for row in rows]
    else:
        gib, cpu = _child(["-m", "experiments.overhead.plain", str(job), str(folder / "figures.json")])
        figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
        seconds, norms = figures["seconds"][SKIPPED:-1], figures["grad_norm"]
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return {"cpu": cpu, "wall": statistics.median(seconds or [0.0]), "gib": gib, "grad_norm": norms}


def _job(name: str, turn: int, model: Path, work: Path, folder: Path, steps: int) -> Mapping[str, Any]:
    suite = SUITES[name]
    data = {split: str(work / f"{split}.jsonl") for split in ("train", "probe")}
    if not Path(data["probe"]).is_file():
        _child(["-m", "experiments.overhead.data", str(work)])
    return {
        "schema_version": 1,
        "job_id": "n001.1",
        "study": "overhead",
        "node": "n001",
        "attempt": 1,
        "seed": turn,
        "model": {"name": name, "path": str(model), "dtype": "float32"},
        "task": "math",
        "start": {"mode": "base"},
        "stages": [
            {
                "algorithm": "grpo",
                "steps": steps,
                "arguments": {**_ARGUMENTS, **suite["arguments"]},
                "hooks": [],
                "rewards": [{"ref": "verifier"}],
                "fork": {},
            }
        ],
        "data": {**data, "manifest": ""},
        "probe": {"every": _NEVER, "n": 8, "max_completion_length": 6},
        "checkpoints": {"every": _NEVER},
        "rollouts": {"every": 1, "max_rows": 64},
        "limits": {},
        "resources": {"device": "cpu", "devices": [0], "threads": 1},
        "output": str(folder),
        "frozen": {},
    }


def _child(arguments: Sequence[str]) -> tuple[float, float]:
    """Run a Python program of the checkout to its end; its peak resident memory in GiB, its CPU seconds.

    Raises:
        RuntimeError: it failed; the message has the end of what it said.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DISABLE_MLFLOW_INTEGRATION": "TRUE",
    }
    command = [sys.executable, *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        said = child.stderr.read() if child.stderr is not None else ""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {child.returncode}:\n{said[-2000:]}")
    return usage.ru_maxrss / 2**20, usage.ru_utime + usage.ru_stime


def _figure(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}
