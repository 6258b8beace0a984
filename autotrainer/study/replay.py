"""Repeat a recorded node alone, from its own harness version and job.json, and compare step for step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.contract.models import JobResult, JobSpec, LaunchSpec
from autotrainer.errors import ConfigError
from autotrainer.executors.base import JobState, Resources
from autotrainer.executors.local import LocalExecutor
from autotrainer.study.view import StudyView
from autotrainer.workspace.versions import checkout

_CLOCKED = (
    "time",
    "wall_s",
    "step_time",
    "time/",
    "memory/",
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
)
"""Keys that depend on the clock or the machine, not on the recipe."""


def run_node(root: Path, node: str, output: Path) -> dict[str, Any]:
    """Run a node's recorded attempt again in `output` and compare its metrics with the recorded ones.

    Returns:
        steps compared, `equal` (every compared value is), the largest difference and where it is, the
        result's status.

    Raises:
        ConfigError: there is no such node, it never ran, or `output` is not empty.
    """
    view = StudyView.read(root)
    if node not in view.tree:
        raise ConfigError(
            f"study {view.config.id} has no node {node!r}: it has {', '.join(n.id for n in view.tree.nodes)}"
        )
    recorded = view.tree[node]
    if recorded.attempt == 0:
        raise ConfigError(f"node {node} never ran: it is {recorded.state} ({recorded.proposal.edge})")
    if output.exists() and any(output.iterdir()):
        raise ConfigError(f"{output} is not empty: give another folder")
    output = output.resolve()
    workspace = output / "workspace"
    checkout(view.paths.harness_git, recorded.harness, workspace)
    result = _run(view, recorded.job_id, output, workspace)
    before, after = view.metrics(node), Metrics.read(output / "run" / "metrics.jsonl")
    return {
        "schema_version": 1,
        "node": node,
        "output": str(output),
        "status": result.status,
        "reason": result.reason,
        **compare(before, after),
    }


def _run(view: StudyView, job_id: str, output: Path, workspace: Path) -> JobResult:
    directory = output / "run"
    directory.mkdir(parents=True)
    recorded = view.paths.job(job_id)
    spec = JobSpec.read(recorded / "job.json")
    spec.model_copy(update={"output": str(directory)}).write(directory / "job.json")
    launch = LaunchSpec.read(recorded / "launch.json")
    scratch = directory / "tmp"
    scratch.mkdir()
    env = {
        **launch.env,
        "PYTHONPATH": str(workspace),
        "TMPDIR": str(scratch),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
    }
    argv = [*launch.argv[:-1], str(directory / "job.json")]
    launch.model_copy(
        update={"argv": argv, "cwd": str(workspace), "env": env, "writable": [str(directory)]}
    ).write(directory / "launch.json")
    own = spec.resources
    job = LocalExecutor(slots=1).submit(
        job_id, directory, Resources(device=own["device"], devices=(), threads=own["threads"])
    )
    while job.state() in (JobState.PENDING, JobState.RUNNING):
        time.sleep(0.2)
    return JobResult.read(directory / "result.json")


def compare(before: Metrics, after: Metrics) -> dict[str, Any]:
    """Compare two runs on the steps and keys that both have and that no clock decides."""
    rows = {row["step"]: row for row in after.rows}
    largest, where, compared = 0.0, "", 0
    for row in before.rows:
        other = rows.get(row["step"])
        if other is None:
            continue
        compared += 1
        for key, value in row.items():
            if key.startswith(_CLOCKED) or not isinstance(value, int | float) or key not in other:
                continue
            difference = abs(float(value) - float(other[key]))
            if difference > largest or difference != difference:
                largest, where = difference, f"{key} at step {row['step']}"
    return {
        "steps_recorded": before.last_step,
        "steps_repeated": after.last_step,
        "steps_compared": compared,
        "largest_difference": largest,
        "where": where,
        "equal": compared > 0 and largest == 0.0,
    }
