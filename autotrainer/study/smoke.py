"""smoke_job: a few real steps of a recipe in a workspace, outside the tree; for set-up and for trials."""

from __future__ import annotations

import time
from pathlib import Path

from autotrainer.contract.models import JobResult, StartSpec
from autotrainer.errors import ContractError
from autotrainer.executors.base import JobState
from autotrainer.recipe.recipe import Recipe
from autotrainer.study.jobs import job_spec, launch
from autotrainer.study.runtime import Runtime

LIMIT_S = 600.0


def smoke_job(
    runtime: Runtime,
    job_id: str,
    recipe: Recipe,
    workspace: Path,
    *,
    start: StartSpec | None = None,
    wall_s: float = LIMIT_S,
) -> JobResult:
    """Run a recipe to its end as a job `<name>.<attempt>` and return its result.

    The job is isolated like one of the tree; whoever runs it inside the budget charges it. It is cancelled
    where the study is to stop. A job that left no result counts as crashed.
    """
    directory = runtime.paths.job(job_id)
    directory.mkdir(parents=True, exist_ok=True)
    name, _, attempt = job_id.rpartition(".")
    job_spec(
        runtime,
        job_id=job_id,
        node=name,
        attempt=int(attempt),
        recipe=recipe,
        start=start or StartSpec(),
        workspace=workspace,
        wall_s=wall_s,
    ).write(directory / "job.json")
    launch(
        runtime,
        job_id,
        "harness.run",
        "job.json",
        workspace=workspace,
        wall_s=wall_s,
        hide=[runtime.paths.vault],
    )
    job = runtime.job(job_id)
    while job.state() in (JobState.PENDING, JobState.RUNNING):
        if runtime.should_stop():
            job.cancel("the study is to stop")
        time.sleep(0.1)
    try:
        return JobResult.read(directory / "result.json")
    except (ContractError, FileNotFoundError) as error:
        return JobResult(job_id=job_id, status="crashed", reason=f"no result: {error}")
