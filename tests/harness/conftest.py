"""Small real jobs on the shipped tiny model, run in this process."""

import json
import signal
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "autotrainer" / "models" / "tiny"


@dataclass(frozen=True)
class Done:
    """A job that has ended: its result.json, its metrics rows, its folder."""

    result: dict[str, Any]
    rows: list[dict[str, Any]]
    folder: Path

    def checkpoint(self, step: int) -> Path:
        return self.folder / "checkpoints" / str(step)

    def series(self, key: str) -> list[Any]:
        return [row.get(key) for row in self.rows]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/ of the task math: 96 training items, 16 probe items."""
    from harness.tasks import load
    from harness.tasks.files import write_items

    folder = tmp_path_factory.mktemp("data")
    for name, items in load("math").splits({"train": 96, "probe": 16}, 0).items():
        write_items(folder / f"{name}.jsonl", items)
    return folder


@pytest.fixture(scope="session")
def job_value(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Build a job.json: `arguments` and keywords of the stage go into its one stage, `job` over the whole."""

    def build(
        arguments: dict[str, Any] | None = None, job: dict[str, Any] | None = None, **stage: Any
    ) -> dict[str, Any]:
        own = {
            "learning_rate": 1e-4,
            "lr_scheduler_type": "constant",
            "num_generations": 8,
            "max_completion_length": 6,
            "per_device_train_batch_size": 32,
            "gradient_accumulation_steps": 1,
            "steps_per_generation": 1,
        }
        stages = [
            {
                "algorithm": "grpo",
                "steps": 4,
                "arguments": own | (arguments or {}),
                "hooks": [],
                "rewards": [{"ref": "verifier"}],
                "fork": {},
                **stage,
            }
        ]
        return {
            "schema_version": 1,
            "job_id": "n001.1",
            "study": "s",
            "node": "n001",
            "attempt": 1,
            "seed": 0,
            "model": {"name": "tiny", "path": str(TINY), "dtype": "float32"},
            "task": "math",
            "start": {"mode": "base"},
            "stages": stages,
            "data": {"train": str(data / "train.jsonl"), "probe": str(data / "probe.jsonl"), "manifest": ""},
            "probe": {"every": 2, "n": 16, "max_completion_length": 6},
            "checkpoints": {"every": 2},
            "rollouts": {"every": 1, "max_rows": 32},
            "limits": {},
            "resources": {"device": "cpu", "devices": [0], "threads": 1},
            "output": str(tmp_path_factory.mktemp("attempt")),
            "frozen": {},
            **(job or {}),
        }

    return build


@pytest.fixture(scope="session")
def run(job_value: Callable[..., dict[str, Any]]) -> Iterator[Callable[..., Done]]:
    """Run a job in this process and return what it left."""
    before = signal.getsignal(signal.SIGTERM)

    def run_one(**parts: Any) -> Done:
        from harness.run import main

        value = parts.pop("value", None) or job_value(**parts)
        folder = Path(value["output"])
        (folder / "job.json").write_text(json.dumps(value))
        main([str(folder / "job.json")])
        return read(folder)

    yield run_one
    signal.signal(signal.SIGTERM, before)


def read(folder: Path) -> Done:
    """What a job left in its folder."""
    path = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return Done(json.loads((folder / "result.json").read_text()), rows, folder)


@pytest.fixture(scope="session")
def straight(run: Callable[..., Done]) -> Done:
    """Eight steps from the base model, with a KL penalty and two updates a batch: the parent of forks."""
    return run(arguments={"beta": 0.05, "num_iterations": 2}, steps=8, job={"checkpoints": {"every": 3}})


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Put a module of hooks or rewards in place for one test; module("hooks", X=...) returns its ref."""

    def place(folder: str, **names: Any) -> str:
        name = f"double_{len(sys.modules)}"
        made = types.ModuleType(f"harness.{folder}.{name}")
        for key, value in names.items():
            setattr(made, key, value)
        monkeypatch.setitem(sys.modules, made.__name__, made)
        return f"{folder}/{name}.py"

    return place
