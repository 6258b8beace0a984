"""The resident evaluator as a job: started when it is missing, stopped with the study."""

from __future__ import annotations

import time

from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import EvaluationError
from autotrainer.executors.base import JobState
from autotrainer.study import diagnose
from autotrainer.study.jobs import launch, resources
from autotrainer.study.runtime import Runtime

MAX_STARTS = 5
_DAY_S = 86400.0


def current(paths: StudyPaths) -> int:
    """The number of the newest evaluator; 0 where there was none."""
    folder = paths.root / "evaluator"
    if not folder.is_dir():
        return 0
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=0)


def ensure_running(runtime: Runtime) -> None:
    """Start an evaluator unless one runs.

    Raises:
        EvaluationError: it died MAX_STARTS times; the message has the last reason.
    """
    number = current(runtime.paths)
    if number:
        state = runtime.job(f"evaluator.{number}").state()
        if state is JobState.RUNNING:
            return
        if state is JobState.PENDING:
            _start(runtime, number)
            return
    if number - _starts_before(runtime) >= MAX_STARTS:
        log = runtime.paths.job(f"evaluator.{number}") / "job.log"
        raise EvaluationError(f"the evaluator ended {MAX_STARTS} times; its output is in {log}")
    _start(runtime, number + 1)


def _starts_before(runtime: Runtime) -> int:
    events = [e for e in runtime.journal if e.kind == "note" and "evaluator_base" in e.data.get("data", {})]
    return int(events[-1].data["data"]["evaluator_base"]) if events else 0


def _start(runtime: Runtime, number: int) -> None:
    paths, job_id = runtime.paths, f"evaluator.{number}"
    paths.eval_requests.mkdir(parents=True, exist_ok=True)
    paths.evals.mkdir(parents=True, exist_ok=True)
    own = resources(runtime)
    spec = {
        "schema_version": 1,
        "job_id": job_id,
        "study_dir": str(paths.root),
        "requests_dir": str(paths.eval_requests),
        "evals_dir": str(paths.evals),
        "vault_dir": str(paths.vault),
        "task": runtime.config.task,
        "control_lock": str(paths.control_lock),
        "idle_exit_s": 120.0,
        "device": own.device,
        "threads": own.threads,
        "output": str(paths.job(job_id)),
    }
    launch(
        runtime,
        job_id,
        "harness.evaluate",
        "serve.json",
        workspace=paths.pristine,
        wall_s=30 * _DAY_S,
        writable=[paths.evals, paths.eval_requests],
        spec=spec,
    )


def stop(runtime: Runtime, *, wait_s: float = 15.0) -> None:
    """Ask the evaluator to end; cancel it where it does not."""
    number = current(runtime.paths)
    if not number:
        return
    job = runtime.job(f"evaluator.{number}")
    if job.state() is not JobState.RUNNING:
        return
    diagnose.request_stop(runtime, job.id, "the study has ended", now=False)
    deadline = time.monotonic() + wait_s
    while job.state() is JobState.RUNNING and time.monotonic() < deadline:
        time.sleep(0.1)
    if job.state() is JobState.RUNNING:
        job.cancel("the study has ended")
