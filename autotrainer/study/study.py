"""The study: create, run or resume, stop, dry run. What the command line calls."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from autotrainer.budget.grammar import parse_budget
from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import ConfigError, StudyLockedError
from autotrainer.evaluation.client import EvaluatorClient
from autotrainer.executors.devices import require_devices
from autotrainer.executors.local import LocalExecutor
from autotrainer.files import write_text
from autotrainer.library.loader import load_skills
from autotrainer.planners.registry import planner
from autotrainer.recipe.careful import careful_recipe
from autotrainer.resources import resolve_model
from autotrainer.search.registry import policy
from autotrainer.study import evaluator_job, finish, setup, steps
from autotrainer.study.config import StudyConfig
from autotrainer.study.diagnose import diagnose_running
from autotrainer.study.disk import watch_disk
from autotrainer.study.estimate import estimate
from autotrainer.study.jobs import default_python
from autotrainer.study.llm import attach_llm
from autotrainer.study.notify import notify
from autotrainer.study.runtime import Runtime
from autotrainer.study.steering import take_steering
from autotrainer.study.stop_file import StopFile
from autotrainer.study.tasks import check_reward
from autotrainer.study.view import StudyView
from autotrainer.tracking.base import Tracker
from autotrainer.tracking.mlflow import MlflowTracker
from autotrainer.tree.journal import Journal

POLL_S = 0.3
MIRROR_EVERY_S = 5.0

STEPS: dict[str, Callable[[Runtime], None]] = {
    "propose_base": steps.propose_base,
    "keep_evaluator": evaluator_job.ensure_running,
    "collect_jobs": steps.collect_jobs,
    "collect_scores": steps.collect_scores,
    "diagnose_running": diagnose_running,
    "watch_disk": watch_disk,
    "wind_down": steps.wind_down,
    "take_steering": take_steering,
    "plan_next": steps.plan_next,
    "launch_queued": steps.launch_queued,
    "finish_test": finish.finish_test,
    "notify": notify,
}


def validate(config: StudyConfig) -> None:
    """Check everything that can be checked before anything is created.

    Raises:
        ConfigError: task, model, planner, policy, skill folder, budget or a knob is wrong.
    """
    parse_budget(config.budget_text)
    facts = setup.task_facts(config.task, config.tasks_dirs)
    check_reward(config.reward)
    resolve_model(config.model)
    planner(config.planner)
    if config.llm.model is not None:
        from autotrainer.planners.llm.litellm_backend import price_of

        for name in {config.llm.model, config.llm.coder or config.llm.model}:
            price_of(name, config.llm)
    policy(config.policy)
    load_skills([Path(folder) for folder in config.skills_dirs])
    overrides = {key: value for key, value in config.recipe.items() if key != "algorithm"}
    careful_recipe(config.model, config.task, config.seed, 2, int(facts["max_completion_length"]), overrides)


def create_study(config: StudyConfig, runs: Path) -> Path:
    """Create a study's folder with study.toml and the first event of its journal.

    Raises:
        ConfigError: what was asked is wrong, the devices are not there, or the folder is taken.
    """
    validate(config)
    require_devices(parse_budget(config.budget_text))
    root = (runs / config.id).resolve()
    if root.exists():
        raise ConfigError(f"study {config.id!r} exists at {root}: give another --id, or resume it")
    root.mkdir(parents=True)
    paths = StudyPaths(root)
    write_text(paths.config, config.to_toml())
    Journal(paths.journal).append(
        "study_created", {"study": config.id, "seed": config.seed, "config": config.model_dump(mode="json")}
    )
    return root


def dry_run(config: StudyConfig) -> dict[str, Any]:
    """Plan, memory, step time, disk and price of a study by arithmetic; launches and creates nothing."""
    validate(config)
    return estimate(config)


def open_runtime(root: Path, *, should_stop: Callable[[], bool] | None = None) -> Runtime:
    """The heavy objects of a study; the caller holds control.lock."""
    paths = StudyPaths(root)
    config = StudyConfig.read(paths.config)
    budget = parse_budget(config.budget_text)
    asked = StopFile(paths.root)

    def stop_asked() -> bool:
        return asked.pause or (should_stop is not None and should_stop())

    runtime = Runtime(
        paths=paths,
        config=config,
        budget=budget,
        journal=Journal(paths.journal),
        executor=LocalExecutor(slots=config.budget.slots or budget.devices),
        evaluator=EvaluatorClient(paths),
        planner=planner(config.planner),
        policy=policy(config.policy),
        library=load_skills([Path(folder) for folder in config.skills_dirs]),
        model_path=resolve_model(config.model),
        python=default_python(),
        should_stop=stop_asked,
        should_finish=lambda: asked.finish,
        stop_reason=lambda: asked.reason,
    )
    attach_llm(runtime)
    return runtime


def run_study(
    root: Path,
    *,
    on_tick: Callable[[StudyView], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_setup: Callable[[str], None] | None = None,
) -> StudyView:
    """Run a study, or take it up again, until it is finished or paused.

    Raises:
        StudyLockedError: another control plane runs it.
    """
    paths = StudyPaths(root.resolve())
    lock = FileLock(paths.control_lock)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise StudyLockedError(f"study {root.name} is run by another autotrainer: stop it first") from None
    try:
        runtime = open_runtime(paths.root, should_stop=should_stop)
        if runtime.view().state == "finished":
            return runtime.view()
        _take_up(runtime)
        tracker = MlflowTracker(runtime.paths.root.parent, uri=runtime.config.tracking.mlflow_uri)
        try:
            tracker.mirror(runtime.view())  # a new database is made before the clock starts
            setup.prepare_study(runtime, progress=on_setup or (lambda text: None))
            _loop(runtime, tracker, on_tick or (lambda view: None))
        finally:
            tracker.close()
        return runtime.view()
    finally:
        lock.release()


def _take_up(runtime: Runtime) -> None:
    """After a pause the deadline moves by its length; a new control plane may start the evaluator afresh."""
    StopFile(runtime.paths.root).clear()
    paused = runtime.view().last("study_paused")
    if runtime.view().state == "paused" and paused is not None and runtime.ledger.deadline is not None:
        deadline = runtime.ledger.deadline + runtime.clock() - paused.time
        runtime.record("study_resumed", reason="resumed by a person", deadline=deadline)
    number = evaluator_job.current(runtime.paths)
    runtime.record("note", text="control plane started", data={"evaluator_base": number})


def _loop(runtime: Runtime, tracker: Tracker, on_tick: Callable[[StudyView], None]) -> None:
    from autotrainer.study.graph import Loop
    from autotrainer.ui.report import write_report

    mirrored = 0.0
    with Loop(runtime, STEPS) as loop:
        while runtime.view().state == "running":
            loop.tick()
            end_if_stopping(runtime)
            on_tick(runtime.view())
            if time.monotonic() - mirrored > MIRROR_EVERY_S:
                tracker.mirror(runtime.view())
                mirrored = time.monotonic()
            time.sleep(POLL_S)
    notify(runtime)
    evaluator_job.stop(runtime)
    write_report(runtime.view())
    tracker.mirror(runtime.view())
    if tracker.last_error is not None:
        runtime.record("note", text=f"MLflow is behind: {tracker.last_error}", data={})


def end_if_stopping(runtime: Runtime) -> None:
    """Pause or finish a study that is stopping once nothing runs any more."""
    if runtime.view().state != "running" or runtime.tree.active or not steps.stopping(runtime):
        return
    if runtime.should_stop():
        runtime.record("study_paused", reason=steps.stop_reason(runtime))
        StopFile(runtime.paths.root).clear()
    elif runtime.view().phase == "test":
        return
    else:
        reason = f"{steps.stop_reason(runtime)}: what there is is judged"
        runtime.record("phase", phase="test", reason=reason)


def request_stop(root: Path, reason: str, *, finish: bool = False) -> None:
    """Ask the control plane of a study to stop: jobs leave a checkpoint, the study pauses.

    With `finish` it judges what it has and ends instead.

    Raises:
        ConfigError: the study does not run.
    """
    view = StudyView.read(root)
    if view.state in ("finished", "paused"):
        raise ConfigError(f"study {view.config.id} is {view.state}: there is nothing to stop")
    StopFile(view.paths.root).ask(reason, finish=finish)


def is_controlled(root: Path) -> bool:
    """Whether a control plane runs the study now."""
    lock = FileLock(StudyPaths(root.resolve()).control_lock)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def remove_study(root: Path) -> None:
    """Remove a study that was created and never started; for a set-up that the user's input made fail."""
    if StudyView.read(root).state == "created":
        shutil.rmtree(root)
