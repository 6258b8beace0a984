"""A whole study in the simulated world, left in a study's folder: `autotrainer run --executor simulated`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autotrainer.bench.simulated.player import SimulatedRuntime, drive_study
from autotrainer.budget.grammar import parse_budget
from autotrainer.contract.models import Manifest
from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import ConfigError
from autotrainer.files import write_text
from autotrainer.library.loader import load_skills
from autotrainer.planners.registry import planner
from autotrainer.search.plan import JobCost, Plan
from autotrainer.search.registry import policy
from autotrainer.simulation.evaluator import SimulatedEvaluator
from autotrainer.simulation.executor import SimulatedExecutor
from autotrainer.simulation.surface import draw_surface
from autotrainer.simulation.world import World
from autotrainer.study.config import StudyConfig
from autotrainer.study.estimate import estimate
from autotrainer.study.setup import task_facts
from autotrainer.study.study import validate
from autotrainer.study.view import StudyView
from autotrainer.tree.journal import Journal

FAMILY = "halfway"
"""The surface that is played: one on which something has to change half-way."""


def play_night(config: StudyConfig, runs: Path, on_tick: Callable[[StudyView], None]) -> StudyView:
    """Play a study for any device and model size to its report; seconds instead of a night.

    Plan and times are those of the estimate; what runs bring is the simulated world's, and says nothing about
    the model.

    Raises:
        ConfigError: what was asked is wrong, or the folder is taken.
    """
    validate(config)
    found = estimate(config)
    root = (runs / config.id).resolve()
    if root.exists():
        raise ConfigError(f"study {config.id!r} exists at {root}: give another --id")
    root.mkdir(parents=True)
    plan = Plan.from_json(found["plan"])
    runtime = _runtime(root, config, plan.cost)
    facts = task_facts(config.task)
    Manifest(
        task=config.task,
        seed=config.seed,
        splits={},
        task_facts={"max_completion_length": facts["max_completion_length"]},
        audit={"gold_accepted": 1.0, "bad_rejected": 1.0, "overlap": 0},
    ).write(runtime.paths.manifest)
    (root / "base").mkdir()
    write_text(runtime.paths.config, config.to_toml())
    runtime.record("study_created", study=config.id, seed=config.seed, config=config.model_dump(mode="json"))
    runtime.record(
        "study_prepared", manifest={}, model_path=runtime.model_path, plan=plan.to_json(), beliefs={}
    )
    budget = runtime.budget
    runtime.record("study_started", deadline=runtime.clock() + budget.seconds, granted=budget.device_s)
    runtime.record("phase", phase="careful", reason=f"mode {plan.mode}")
    drive_study(runtime, lambda: on_tick(runtime.view()))
    from autotrainer.ui.report import write_report

    write_report(runtime.view())
    return runtime.view()


def _runtime(root: Path, config: StudyConfig, cost: JobCost) -> SimulatedRuntime:
    paths, budget = StudyPaths(root), parse_budget(config.budget_text)
    world = World(draw_surface(FAMILY, config.seed), cost)
    return SimulatedRuntime(
        paths=paths,
        config=config,
        budget=budget,
        journal=Journal(paths.journal, clock=world.clock),
        executor=SimulatedExecutor(world, config.budget.slots or budget.devices),
        evaluator=SimulatedEvaluator(paths, world, seed=config.seed),
        planner=planner(config.planner),
        policy=policy(config.policy),
        library=load_skills([Path(folder) for folder in config.skills_dirs]),
        model_path=str(root / "base"),
        python="python",
        clock=world.clock,
        build=lambda *_: "0" * 40,
    )
