"""Play a whole study in the simulated world: the loop's own steps, simulated jobs, no time of ours."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotrainer.budget.grammar import parse_budget
from autotrainer.budget.ledger import Ledger
from autotrainer.contract.metrics import Metrics
from autotrainer.contract.models import Manifest
from autotrainer.contract.paths import StudyPaths
from autotrainer.library.loader import load_skills
from autotrainer.library.skill import LoadedSkill
from autotrainer.planners.registry import planner
from autotrainer.search.plan import JobCost
from autotrainer.search.planning import make_plan
from autotrainer.search.registry import policy
from autotrainer.simulation.evaluator import SimulatedEvaluator
from autotrainer.simulation.executor import SimulatedExecutor
from autotrainer.simulation.job import SimulatedJob
from autotrainer.simulation.policy import accuracy
from autotrainer.simulation.surface import Surface
from autotrainer.simulation.world import World
from autotrainer.study import finish, steps
from autotrainer.study.config import StudyConfig
from autotrainer.study.diagnose import diagnose_running
from autotrainer.study.runtime import Runtime
from autotrainer.study.study import end_if_stopping
from autotrainer.tree.event import Event
from autotrainer.tree.journal import Journal
from autotrainer.tree.node import Node
from autotrainer.tree.tree import Tree

TASK_CAP = 8
STEPS: tuple[Callable[[Runtime], None], ...] = (
    steps.propose_base,
    steps.collect_jobs,
    steps.collect_scores,
    diagnose_running,
    steps.wind_down,
    steps.plan_next,
    steps.launch_queued,
    finish.finish_test,
)
"""The loop's steps but for the evaluator's process."""


class SearchEndedError(Exception):
    """The search is over and nobody asked for its judgement."""


class SimulatedRuntime(Runtime):
    """A runtime whose metrics are the world's and whose workspaces are empty.

    With `judged` false it stops where the confirmation would begin.
    """

    judged = True

    def record(self, kind: str, **data: Any) -> Event:
        """Write an event.

        Raises:
            SearchEndedError: it says that the search is over, and judging is not asked for.
        """
        if kind == "phase" and data["phase"] in ("confirm", "test") and not self.judged:
            raise SearchEndedError
        return super().record(kind, **data)

    def metrics(self, node_id: str) -> Metrics:
        """What the node's newest attempt has logged by now."""
        node = self.tree[node_id]
        executor = self.executor
        if not node.attempt or not isinstance(executor, SimulatedExecutor):
            return Metrics(())
        directory = self.paths.job(node.job_id)
        job = executor.attach(node.job_id, directory)
        found = Metrics(())
        if isinstance(job, SimulatedJob):
            found.rows = executor.world.rows[str(directory)][: job.known_steps()]
        return found


@dataclass(frozen=True, slots=True)
class Played:
    """A study that was played: its fold, when things happened (seconds since its start), and what is true.

    `true` is each scored node's accuracy without evaluation noise.
    """

    tree: Tree
    ledger: Ledger
    summary: Mapping[str, Any]
    reasons: tuple[str, ...]
    ended: float
    scored_at: Mapping[str, float] = field(default_factory=dict)
    true: Mapping[str, float] = field(default_factory=dict)


def play(
    surface: Surface,
    *,
    seed: int,
    budget: str,
    cost: JobCost,
    planner_name: str = "rules",
    policy_name: str = "auto",
    search: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    library: Mapping[str, LoadedSkill] | None = None,
    until: str = "finished",
) -> Played:
    """Play a study to its end; with `until="judging"` to the end of its search only.

    Equal arguments give equal studies.
    """
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="autotrainer-play-", dir=place) as folder:
        config = StudyConfig.build(
            {
                "id": "simulated",
                "task": "math",
                "model": "tiny",
                "budget_text": budget,
                "seed": seed,
                "planner": planner_name,
                "policy": policy_name,
                "search": dict(search or {}),
                "evaluation": dict(evaluation or {}),
            }
        )
        runtime = _runtime(Path(folder), config, surface, cost, library)
        _prepare(runtime, cost)
        runtime.judged = until == "finished"
        with suppress(SearchEndedError):
            drive_study(runtime)
        return _played(runtime)


_LIBRARY: dict[str, Mapping[str, LoadedSkill]] = {}


def shipped_library() -> Mapping[str, LoadedSkill]:
    """The shipped skills, loaded once."""
    if "shipped" not in _LIBRARY:
        _LIBRARY["shipped"] = load_skills(())
    return _LIBRARY["shipped"]


def _runtime(
    root: Path,
    config: StudyConfig,
    surface: Surface,
    cost: JobCost,
    library: Mapping[str, LoadedSkill] | None,
) -> SimulatedRuntime:
    paths = StudyPaths(root)
    world = World(surface, cost, durable=False)
    budget = parse_budget(config.budget_text)
    return SimulatedRuntime(
        paths=paths,
        config=config,
        budget=budget,
        journal=Journal(paths.journal, clock=world.clock),
        executor=SimulatedExecutor(world, budget.devices),
        evaluator=SimulatedEvaluator(paths, world, seed=config.seed),
        planner=planner(config.planner),
        policy=policy(config.policy),
        library=shipped_library() if library is None else library,
        model_path=str(root / "base"),
        python="python",
        clock=world.clock,
        build=lambda *_: "0" * 40,
    )


def _prepare(runtime: Runtime, cost: JobCost) -> None:
    paths, config = runtime.paths, runtime.config
    Manifest(
        task=config.task,
        seed=config.seed,
        splits={},
        task_facts={"max_completion_length": TASK_CAP},
        audit={"gold_accepted": 1.0, "bad_rejected": 1.0, "overlap": 0},
    ).write(paths.manifest)
    (paths.root / "base").mkdir()
    plan = make_plan(runtime.budget, cost, config.search, model_name=config.model, slots=config.budget.slots)
    runtime.record("study_created", study=config.id, seed=config.seed, config=config.model_dump(mode="json"))
    runtime.record("study_prepared", manifest={}, model_path=runtime.model_path, plan=plan.to_json())
    budget = runtime.budget
    runtime.record("study_started", deadline=runtime.clock() + budget.seconds, granted=budget.device_s)
    runtime.record("phase", phase="careful", reason=f"mode {runtime.plan.mode}")


def drive_study(runtime: SimulatedRuntime, on_tick: Callable[[], None] = lambda: None) -> None:
    """Run the loop's steps to the study's end; where nothing happens the clock goes on to what comes next."""
    executor = runtime.executor
    assert isinstance(executor, SimulatedExecutor)
    world = executor.world
    for _ in range(1_000_000):
        before = len(runtime.journal)
        for step in STEPS:
            step(runtime)
        end_if_stopping(runtime)
        if runtime.view().state != "running":
            return
        if len(runtime.journal) == before:
            _pass_time(runtime, world)
        else:
            on_tick()
    raise RuntimeError("a simulated study did not end")


def _pass_time(runtime: Runtime, world: World) -> None:
    due, deadline = world.next_event(), runtime.ledger.deadline
    if due is None:
        if deadline is None or runtime.clock() >= deadline:
            raise RuntimeError("a simulated study waits for something that will not happen")
        due = deadline
    elif deadline is not None and runtime.clock() < deadline:
        due = min(due, deadline)
    world.clock.advance_to(due)


def _played(runtime: SimulatedRuntime) -> Played:
    executor = runtime.executor
    assert isinstance(executor, SimulatedExecutor)
    view, started = runtime.view(), runtime.view().last("study_started")
    origin = started.time if started else 0.0
    scored = {
        event.data["node"]: event.time - origin
        for event in runtime.journal
        if event.kind == "node_scored" and event.data["split"] == "dev"
    }
    world = executor.world
    true = {
        node.id: accuracy(world.surface, world.state(steps.model_path(runtime, node)))
        for node in runtime.tree.nodes
        if node.scores
    }
    reasons = tuple(str(event.data["reason"]) for event in runtime.journal if event.kind == "phase")
    return Played(runtime.tree, runtime.ledger, view.summary, reasons, runtime.clock() - origin, scored, true)


def best_by_dev(played: Played) -> Node:
    """The node that a search would take home: the best candidate by dev, the base where none is better."""
    best, base = played.tree.best(), played.tree.nodes[0]
    if best is None or (best.score("dev") or 0.0) <= (base.score("dev") or 0.0):
        return base
    return best
