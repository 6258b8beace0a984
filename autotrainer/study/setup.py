"""Set-up of a study before its clock starts: pristine harness, data and vault, smoke run, plan.

Every part may be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.contract.models import JobResult, Manifest, StartSpec
from autotrainer.errors import ConfigError, ExecutorError
from autotrainer.executors.base import JobState
from autotrainer.recipe.careful import default_steps
from autotrainer.resources import tree as shipped_tree
from autotrainer.search.plan import JobCost
from autotrainer.search.planning import make_plan
from autotrainer.study import evaluator_job, evidence
from autotrainer.study.jobs import job_spec, launch
from autotrainer.study.runtime import Runtime
from autotrainer.study.tasks import copy_own, task_facts, task_table
from autotrainer.workspace.copy import copy_pristine

__all__ = ["SMOKE_STEPS", "prepare_data", "prepare_study", "task_facts", "task_table"]

SMOKE_STEPS = 6
_SETUP_LIMIT_S = 1800.0


def prepare_study(runtime: Runtime, *, progress: Callable[[str], None] = lambda text: None) -> None:
    """Do what is missing of the set-up, up to `study_started`."""
    if runtime.view().last("study_started") is not None:
        return
    if runtime.view().last("study_prepared") is None:
        manifest = prepare_data(runtime, progress)
        if not runtime.config.force:
            _check_audit(manifest)
        elif "forced" in manifest.audit:
            progress(f"the audit failed and --force was given: {manifest.audit['forced']}")
        _check_sizes(runtime, manifest)
        progress(f"smoke run: {SMOKE_STEPS} steps of the careful recipe")
        evaluator_job.ensure_running(runtime)
        cost = _measure(runtime, progress)
        plan = make_plan(
            runtime.budget,
            cost,
            runtime.config.search,
            model_name=runtime.config.model,
            slots=runtime.config.budget.slots,
        )
        runtime.record(
            "study_prepared",
            manifest=manifest.model_dump(),
            model_path=runtime.model_path,
            plan=plan.to_json(),
            beliefs=dict(evidence.known_beliefs(runtime)),
        )
    evaluator_job.ensure_running(runtime)
    budget = runtime.budget
    runtime.record("study_started", deadline=runtime.clock() + budget.seconds, granted=budget.device_s)
    runtime.record("phase", phase="careful", reason=f"mode {runtime.plan.mode}")


def prepare_data(runtime: Runtime, progress: Callable[[str], None]) -> Manifest:
    """The pristine harness, data and vault; what was done before is kept."""
    copy_pristine(shipped_tree("harness"), shipped_tree("sandboxes"), runtime.paths.pristine)
    copy_own(runtime.config, runtime.paths.pristine / "harness")
    progress("preparing data, vault and verifier audit")
    _run(runtime, "prepare", _launch_prepare, progress)
    return Manifest.read(runtime.paths.manifest)


def _run(
    runtime: Runtime, kind: str, start: Callable[[Runtime, str], None], progress: Callable[[str], None]
) -> JobResult:
    """Run a set-up job to its end; attach to one that a crash of ours left, try a crashed one again."""
    result = None
    for attempt in range(1, runtime.config.search.max_attempts + 1):
        job_id = f"{kind}.{attempt}"
        job = runtime.job(job_id)
        if job.state() is JobState.PENDING:
            start(runtime, job_id)
        deadline = time.monotonic() + _SETUP_LIMIT_S
        while job.state() in (JobState.PENDING, JobState.RUNNING):
            if runtime.should_stop() or time.monotonic() > deadline:
                job.cancel("set-up was stopped")
                raise ExecutorError(f"{kind} was stopped after {_SETUP_LIMIT_S:.0f} s or by a person")
            time.sleep(0.1)
        directory = runtime.paths.job(job_id)
        result = JobResult.read(directory / "result.json")
        if result.status == "completed":
            return result
        progress(f"{kind} {result.status}: {result.reason}")
        if result.status == "failed":
            break
    reason = result.reason if result else "it never started"
    raise ExecutorError(f"{kind} did not complete ({reason}); its output is in {runtime.paths.root / kind}")


def _launch_prepare(runtime: Runtime, job_id: str) -> None:
    paths = runtime.paths
    for folder in (paths.data, paths.vault):
        folder.mkdir(parents=True, exist_ok=True)
    paths.vault.chmod(0o700)
    facts = task_facts(runtime.config.task, runtime.config.tasks_dirs)
    spec: dict[str, Any] = {
        "schema_version": 1,
        "task": runtime.config.task,
        "seed": runtime.config.seed,
        "sizes": facts["sizes"],
        "model": {"path": runtime.model_path},
        "data_dir": str(paths.data),
        "vault_dir": str(paths.vault),
        "max_completion_length": facts["max_completion_length"],
        "output": str(paths.job(job_id)),
        **({"force": True} if runtime.config.force else {}),
    }
    launch(
        runtime,
        job_id,
        "harness.prepare",
        "prepare.json",
        workspace=paths.pristine,
        wall_s=_SETUP_LIMIT_S,
        writable=[paths.data, paths.vault],
        spec=spec,
    )


def _check_audit(manifest: Manifest) -> None:
    audit = manifest.audit
    if audit["gold_accepted"] < 1.0 or audit["bad_rejected"] < 1.0 or audit["overlap"] != 0:
        raise ConfigError(
            f"the verifier or the splits of task {manifest.task} failed their audit: gold answers accepted "
            f"{audit['gold_accepted']:.1%} (must be 100%), bad ones rejected "
            f"{audit['bad_rejected']:.1%} (must be 100%), "
            f"items in two splits {audit['overlap']} (must be 0)"
        )


def _launch_smoke(runtime: Runtime, job_id: str) -> None:
    spec = job_spec(
        runtime,
        job_id=job_id,
        node="smoke",
        attempt=int(job_id.rpartition(".")[2]),
        recipe=runtime.careful_recipe(SMOKE_STEPS),
        start=StartSpec(),
        workspace=runtime.paths.pristine,
        wall_s=_SETUP_LIMIT_S,
    )
    directory = runtime.paths.job(job_id)
    directory.mkdir(parents=True, exist_ok=True)
    spec.write(directory / "job.json")
    launch(
        runtime,
        job_id,
        "harness.run",
        "job.json",
        workspace=runtime.paths.pristine,
        wall_s=_SETUP_LIMIT_S,
        hide=[runtime.paths.vault],
    )


def _measure(runtime: Runtime, progress: Callable[[str], None]) -> JobCost:
    """The cost model from the smoke run and one evaluation of the base model on the probe."""
    result = _run(runtime, "smoke", _launch_smoke, progress)
    usage = runtime.job(result.job_id).usage()
    total = usage.device_seconds if usage else result.device_seconds
    rows = Metrics.read(runtime.paths.job(result.job_id) / "metrics.jsonl")
    step_s = median(rows.values("step_time")[1:] or [total / SMOKE_STEPS])
    startup_s = max(1.0, total - SMOKE_STEPS * step_s)
    steps = runtime.config.search.steps or default_steps(runtime.config.model)
    progress(f"a job starts in {startup_s:.1f} s and does a step in {step_s:.2f} s; {steps} steps a node")
    return JobCost(startup_s=startup_s, step_s=step_s, eval_s=_measure_evaluation(runtime))


def _measure_evaluation(runtime: Runtime) -> float:
    """Seconds of one evaluation: the base model on as much of dev as a node is scored on."""
    config = runtime.config.evaluation
    request = runtime.evaluator.request(
        "smoke",
        0,
        "dev",
        runtime.model_path,
        n=config.dev_items,
        samples=config.samples,
        temperature=config.temperature,
        max_completion_length=runtime.max_completion_length,
        seed=runtime.config.seed,
    )
    deadline = time.monotonic() + _SETUP_LIMIT_S
    while (answer := runtime.evaluator.poll(request)) is None:
        evaluator_job.ensure_running(runtime)
        if time.monotonic() > deadline:
            raise ExecutorError(f"the evaluator did not answer within {_SETUP_LIMIT_S:.0f} s")
        time.sleep(0.1)
    return float(answer.device_seconds)


def _check_sizes(runtime: Runtime, manifest: Manifest) -> None:
    """Refuse more items of dev than there are."""
    asked, there = runtime.config.evaluation.dev_items, int(manifest.splits["dev"]["n"])
    if asked > there:
        raise ConfigError(
            f"evaluation.dev_items = {asked} is not allowed: dev of task {manifest.task} has {there} items"
        )
