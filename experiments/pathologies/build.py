"""Make the bank: `python -m experiments.pathologies.build WORK` (hours on one core; what is there is kept).

Every run is a real training job of the tiny model. WORK keeps a file a run; the bank beside this script is
written from them: the metrics, rounded to five digits, one run a line.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.files import dumps, write_json
from autotrainer.recipe.recipe import HookRef, Recipe, RewardRef
from autotrainer.study.config import StudyConfig
from autotrainer.study.runtime import Runtime
from autotrainer.study.setup import prepare_data
from autotrainer.study.smoke import smoke_job
from autotrainer.study.study import create_study, open_runtime
from autotrainer.workspace.copy import copy_pristine
from experiments.pathologies.cases import FILE, Case, cases

BANK = Path(__file__).with_name("bank.jsonl.gz")
HOOKS = Path(__file__).with_name("hooks.py")


def main() -> None:
    """Make what is missing, then write the bank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--healthy", type=int, default=150)
    parser.add_argument(
        "--hours", type=float, default=10.0, help="Stop after so long and write what there is."
    )
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    runtime = opened(asked.work)
    until = time.monotonic() + 3600 * asked.hours
    for case in cases(asked.seeds, asked.healthy):
        target = asked.work / f"{case.id}.json"
        if not target.exists() and time.monotonic() < until:
            write_json(target, made(runtime, case))
            print(case.id, flush=True)
    print(write_bank(asked.work), "runs in the bank")


def opened(work: Path) -> Runtime:
    """A study's data and pristine harness, made once."""
    root = work / "study"
    if not (root / "study.toml").exists():
        config = StudyConfig.build(
            {"id": "study", "task": "math", "model": "tiny", "budget_text": "1xCPUx10h", "evidence": "none"}
        )
        create_study(config, work)
    runtime = open_runtime(root)
    if not runtime.paths.manifest.exists():
        prepare_data(runtime, print)
    return runtime


def made(runtime: Runtime, case: Case) -> dict[str, Any]:
    """One run and its metrics."""
    workspace = runtime.paths.root / "workspaces" / case.id
    shutil.rmtree(workspace, ignore_errors=True)
    copy_pristine(runtime.paths.pristine / "harness", runtime.paths.pristine / "sandboxes", workspace)
    shutil.copyfile(HOOKS, workspace / "harness" / FILE)
    job_id = f"{case.id}.1"
    directory = runtime.paths.job(job_id)
    shutil.rmtree(directory, ignore_errors=True)
    result = smoke_job(runtime, job_id, recipe_of(runtime, case), workspace)
    rows = Metrics.read(directory / "metrics.jsonl").rows
    shutil.rmtree(directory / "checkpoints", ignore_errors=True)
    shutil.rmtree(workspace)
    return {
        "schema_version": 1,
        "id": case.id,
        "truth": case.truth,
        "status": result.status,
        "reason": result.reason,
        "knobs": dict(case.knobs),
        "rows": [{key: rounded(value) for key, value in row.items()} for row in rows],
    }


def recipe_of(runtime: Runtime, case: Case) -> Recipe:
    """The careful recipe with what the case changes."""
    recipe = runtime.careful_recipe(case.steps).with_knobs(case.knobs)
    hooks = tuple(HookRef(point, _ref(name), dict(params)) for point, name, params in case.hooks)  # type: ignore[arg-type]
    stage = replace(recipe.stages[0], hooks=hooks, rewards=(RewardRef("verifier", case.verifier),))
    return replace(recipe, stages=(stage,), seed=case.seed)


def _ref(name: str) -> str:
    return f"hooks/{name}" if ".py:" in name else f"{FILE}:{name}"


def rounded(value: Any) -> Any:
    """Five digits are enough for a curve."""
    return (
        float(f"{value:.5g}") if isinstance(value, float) and value == value and abs(value) < 1e300 else value
    )


def write_bank(work: Path) -> int:
    """Write the bank from the runs in a folder; the number of runs."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(work.glob("*-*.json"))]
    with gzip.GzipFile(BANK, "wb", mtime=0) as file:
        for run in runs:
            kept = [
                {k: v for k, v in row.items() if k != "time" and not k.startswith("time/")}
                for row in run["rows"]
            ]
            file.write((dumps({**run, "rows": kept}) + "\n").encode())
    return len(runs)


if __name__ == "__main__":
    main()
