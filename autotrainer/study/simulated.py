"""`--executor simulated`: the same study on a virtual clock, with invented training dynamics. SIMULATED."""

from __future__ import annotations

from autotrainer.budget.grammar import BudgetSpec
from autotrainer.budget.model_shape import shape_of
from autotrainer.contract.paths import StudyPaths
from autotrainer.search.plan import JobCost
from autotrainer.simulation.clock import EPOCH_S, VirtualClock
from autotrainer.simulation.evaluator import SimulatedEvaluator
from autotrainer.simulation.executor import SimulatedExecutor
from autotrainer.simulation.surface import draw_surface
from autotrainer.simulation.world import World, device_cost
from autotrainer.study.config import StudyConfig
from autotrainer.tree.journal import Journal


def make_world(config: StudyConfig, budget: BudgetSpec, paths: StudyPaths) -> World:
    """The world of a simulated study; its clock goes on where the journal ends.

    Raises:
        ConfigError: the surface is unknown, or the budget's devices are not in the table.
    """
    check(config, budget)
    surface = draw_surface(config.simulation.surface, config.seed)
    last = next(reversed(list(Journal(paths.journal, read_only=True))), None)
    clock = VirtualClock(last.time if last is not None else EPOCH_S)
    return World(surface, simulated_cost(config, budget), clock)


def check(config: StudyConfig, budget: BudgetSpec) -> None:
    """Refuse what cannot be simulated.

    Raises:
        ConfigError: the surface is unknown, or the budget's devices are not in the table.
    """
    draw_surface(config.simulation.surface, 0)
    simulated_cost(config, budget)


def simulated_cost(config: StudyConfig, budget: BudgetSpec) -> JobCost:
    """What jobs take: the shipped model's on a CPU core, or those of long completions on an H100, by size.

    64 prompts x 8 completions of about a thousand tokens of a 1.5B model take about 47 s a step.
    """
    if budget.is_cpu:
        return device_cost(JobCost(startup_s=9.0, step_s=0.2, eval_s=4.0), budget.kind)
    share = shape_of(config.model).parameters / 1.5e9
    return device_cost(JobCost(startup_s=60.0, step_s=47.0 * share, eval_s=120.0 * share), budget.kind)


def make_executor(world: World, slots: int) -> SimulatedExecutor:
    """The executor of a world."""
    return SimulatedExecutor(world, slots)


def make_evaluator(world: World, paths: StudyPaths, seed: int) -> SimulatedEvaluator:
    """The evaluator's client of a world."""
    return SimulatedEvaluator(paths, world, seed=seed)


def pass_time(world: World, deadline: float | None) -> None:
    """Let the clock go to the next thing that happens, at most to the deadline."""
    due = world.next_event()
    if due is None:
        due = deadline if deadline is not None else world.clock() + 1.0
    elif deadline is not None and world.clock() < deadline:
        due = min(due, deadline)
    world.clock.advance_to(due)
