"""Self-tests of a training set-up: `python -m harness.selftest JOB.json | MODEL_FOLDER [--json]`. Frozen.

Silent faults of reinforcement learning are a mask that is off by one token, a reward that sits beside another
completion, padding that leaks into log-probs. Each check trains a step or two of the job (its model, task,
data and arguments; for a folder of a model with a task's own items) in a folder that is removed, and compares
what must be equal. Exit code 0: all hold; 1: one does not; 2: the job cannot be read.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.contract import ContractError, JobSpec, read_json, write_json

TOLERANCE = 1e-3
"""Relative, for gradients that are summed in another order."""


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, whether it holds, and the numbers."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A job of one step: its result, its row, its rollouts, what a probe hook saw at loss time."""

    result: dict[str, Any]
    row: dict[str, Any]
    rollouts: list[dict[str, Any]]
    seen: list[dict[str, Any]]


class SelfTest:
    """The checks on one job."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        """Take a job.json's content and a folder to work in."""
        self._job, self._folder, self._count = job, folder, 0
        self._plain: Trial | None = None

    def run(self) -> list[Check]:
        """All checks, in order; one whose job fails is one that does not hold."""
        checks: list[Callable[[], Check]] = [
            self.accumulation,
            self.padding,
            self.end_token,
            self.reward_placement,
            self.zero_mean,
            self.constant_reward,
        ]
        found = []
        for check in checks:
            try:
                found.append(check())
            except TrialError as error:
                found.append(Check(check.__name__, False, str(error)))
        return found

    def accumulation(self) -> Check:
        """Micro-batches of 1/n of the rows have the gradient of one micro-batch."""
        rows = self._rows()
        parts = next((part for part in (4, 2) if rows % part == 0), 1)
        whole = self._trial({**_batch(rows, 1), "loss_type": "dapo"})
        split = self._trial({**_batch(rows // parts, parts), "loss_type": "dapo"})
        one, other = whole.row["grad_norm"], split.row["grad_norm"]
        ok = math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-6)
        return Check(
            "accumulation",
            ok,
            f"grad_norm {one:.6g} for {rows} x 1, {other:.6g} for {rows // parts} x {parts}",
        )

    def padding(self) -> Check:
        """A completion's log-probs do not depend on the padding that other rows of its batch ask for."""
        batch = self._trial({}).seen[0]
        alone = self._trial({"token_budget": 1}).seen[0]
        gap = _largest((batch["logps"] - alone["logps"]) * batch["mask"])
        return Check(
            "padding", gap < 1e-3, f"largest difference of log-probs {gap:.3g} nats, in a batch and alone"
        )

    def end_token(self) -> Check:
        """The end token counts in the loss, and nothing after it."""
        trial = self._shared()
        counted = sorted(int(one) for seen in trial.seen for one in seen["mask"].sum(1).tolist())
        written = sorted(row["tokens"] for row in trial.rollouts)
        stopped = sum(row["finish_reason"] == "stop" for row in trial.rollouts)
        detail = f"{sum(counted)} tokens count, {sum(written)} were written; {stopped} completions ended"
        return Check("end_token", counted == written, detail)

    def reward_placement(self) -> Check:
        """Every row's reward is the verifier's score of that row's completion."""
        from harness.tasks import load
        from harness.training_set import TrainingSet

        task = load(self._job["task"])
        items = {item.id: item for item in TrainingSet.open(Path(self._job["data"]["train"]))}
        trial, wrong = self._shared(), 0
        for row in trial.rollouts:
            item = items[row["prompt_id"]]
            wrong += task.verify(row["completion"], item.answer, item.columns).score != row["reward"]
        return Check(
            "reward_placement",
            wrong == 0,
            f"{wrong} of {len(trial.rollouts)} rewards are of another completion",
        )

    def zero_mean(self) -> Check:
        """The advantages of a group sum to zero."""
        groups: dict[int, list[float]] = {}
        for row in self._shared().rollouts:
            groups.setdefault(row["group"], []).append(row["advantage"])
        worst = max(abs(sum(values) / len(values)) for values in groups.values())
        return Check("zero_mean", worst < 1e-3, f"largest mean of a group {worst:.3g}, {len(groups)} groups")

    def constant_reward(self) -> Check:
        """Equal rewards give no gradient."""
        row = self._trial({"beta": 0.0}, rewards=[{"ref": "rewards/selftest_.py:one"}]).row
        return Check("constant_reward", row["grad_norm"] < 1e-6, f"grad_norm {row['grad_norm']:.3g}")

    def _rows(self) -> int:
        arguments = self._job["stages"][0]["arguments"]
        accumulation = arguments.get("gradient_accumulation_steps", 1)
        parts = arguments.get("steps_per_generation") or accumulation
        return int(arguments.get("per_device_train_batch_size", 8)) * int(parts)

    def _shared(self) -> Trial:
        self._plain = self._plain or self._trial({})
        return self._plain

    def _trial(self, changes: dict[str, Any], rewards: list[dict[str, Any]] | None = None) -> Trial:
        """Train one step of the job's first stage, with the verifier alone, on the whole batch at once."""
        from harness.run import main

        self._count += 1
        output = self._folder / str(self._count)
        output.mkdir()
        stage = self._job["stages"][0]
        arguments = {
            **stage["arguments"],
            **_batch(self._rows(), 1),
            "num_iterations": 1,
            "beta": 0.0,
            **changes,
        }
        arguments = {
            name: value
            for name, value in arguments.items()
            if name not in ("entropy_coef", "use_adaptive_entropy")
        }
        seen: list[dict[str, Any]] = []
        _place_modules(seen)
        value = {
            **self._job,
            "start": {"mode": "base"},
            "stages": [
                {
                    **stage,
                    "steps": 1,
                    "arguments": arguments,
                    "hooks": [{"point": "loss", "ref": "hooks/selftest_.py:Sees"}],
                    "rewards": rewards or [{"ref": "verifier"}],
                    "fork": {},
                }
            ],
            "probe": {**self._job["probe"], "n": 1, "every": 10**6},
            "checkpoints": {"every": 10**6},
            "rollouts": {"every": 1, "max_rows": 10**6},
            "frozen": {},
            "output": str(output),
        }
        write_json(output / "job.json", value)
        main([str(output / "job.json")])
        return _read(output, seen)


class TrialError(RuntimeError):
    """A job of a self-test failed."""


def _read(output: Path, seen: list[dict[str, Any]]) -> Trial:
    import pyarrow.parquet as pq

    result = read_json(output / "result.json")
    if result["status"] != "completed":
        raise TrialError(f"the job of this check {result['status']}: {result['reason']}")
    row = json.loads((output / "metrics.jsonl").read_text().splitlines()[0])
    files = sorted((output / "rollouts").glob("*.parquet"))
    return Trial(result, row, [one for file in files for one in pq.read_table(file).to_pylist()], seen)


def _batch(rows: int, parts: int) -> dict[str, Any]:
    return {
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": parts,
        "steps_per_generation": parts,
    }


def _largest(value: Any) -> float:
    return float(value.abs().max())


def _place_modules(seen: list[dict[str, Any]]) -> None:
    """A reward that is constant and a hook that looks, under names that a job can give."""
    from harness.hooks.api import LossInputs, LossTerm

    class Sees:
        def term(self, inputs: LossInputs) -> LossTerm:
            order = inputs.rows_B.argsort() if inputs.rows_B is not None else slice(None)
            seen.append(
                {"logps": inputs.logps_B_T.detach()[order].clone(), "mask": inputs.mask_B_T[order].clone()}
            )
            return LossTerm(0.0 * inputs.logps_B_T.sum(), {})

    def one(completions: list[str], **_: Any) -> list[float]:
        return [1.0] * len(completions)

    for name, key, value in (("hooks", "Sees", Sees), ("rewards", "one", one)):
        module = types.ModuleType(f"harness.{name}.selftest_")
        setattr(module, key, value)
        sys.modules[module.__name__] = module


def model_job(model: Path, folder: Path, task: str = "math") -> dict[str, Any]:
    """A job on a model's folder with items of a task."""
    from harness.tasks import load
    from harness.tasks.files import write_items

    for name, items in load(task).splits({"train": 64, "probe": 1}, 0).items():
        write_items(folder / f"{name}.jsonl", items)
    arguments = {
        "learning_rate": 1e-5,
        "num_generations": 8,
        "max_completion_length": 8,
        "per_device_train_batch_size": 32,
    }
    return {
        "schema_version": 1,
        "job_id": "selftest.1",
        "study": "selftest",
        "node": "selftest",
        "attempt": 1,
        "seed": 0,
        "model": {"name": model.name, "path": str(model), "dtype": "float32"},
        "task": task,
        "start": {"mode": "base"},
        "stages": [
            {
                "algorithm": "grpo",
                "steps": 1,
                "arguments": arguments,
                "hooks": [],
                "rewards": [{"ref": "verifier"}],
                "fork": {},
            }
        ],
        "data": {"train": str(folder / "train.jsonl"), "probe": str(folder / "probe.jsonl"), "manifest": ""},
        "probe": {"every": 1, "n": 1, "max_completion_length": 8},
        "checkpoints": {"every": 1},
        "rollouts": {"every": 1, "max_rows": 64},
        "limits": {},
        "resources": {"device": "cpu", "devices": [0], "threads": 1},
        "output": str(folder),
        "frozen": {},
    }


def main(arguments: list[str]) -> int:
    """Run the self-tests and return the exit code."""
    as_json = "--json" in arguments
    paths = [one for one in arguments if one != "--json"]
    if len(paths) != 1:
        sys.stderr.write("usage: python -m harness.selftest JOB.json | MODEL_FOLDER [--json]\n")
        return 2
    path = Path(paths[0])
    with tempfile.TemporaryDirectory() as folder:
        try:
            job = model_job(path, Path(folder)) if path.is_dir() else read_json(path)
            JobSpec.of({**job, "output": folder})
        except (ContractError, OSError) as error:
            sys.stderr.write(f"{path}: {error}\n")
            return 2
        checks = SelfTest(job, Path(folder)).run()
    if as_json:
        rows = [{"name": one.name, "ok": one.ok, "detail": one.detail} for one in checks]
        sys.stdout.write(json.dumps({"schema_version": 1, "checks": rows}) + "\n")
    else:
        for one in checks:
            sys.stdout.write(f"{'ok    ' if one.ok else 'FAILED'} {one.name}: {one.detail}\n")
    return 0 if all(one.ok for one in checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
