"""make_plan: what a budget buys; mode and sizes from budget, cost model and settings alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from autotrainer.budget.grammar import BudgetSpec
from autotrainer.errors import ConfigError
from autotrainer.recipe.careful import default_steps
from autotrainer.search.estimate import confirm_device_s, confirm_wall_s, node_device_s, node_wall_s
from autotrainer.search.plan import JobCost, Plan
from autotrainer.search.statistics import provable_gain

WATCH_BELOW, TREE_ABOVE = 4.0, 12.0
"""Full runs that the budget buys: fewer than 4, one watched run; up to 12, careful seeds; more, a tree."""
CONFIRM_SEEDS = 3
MIN_TREE_NODES, MIN_TREE_DEPTH = 8, 2
SLACK = 0.05
"""Share of the wall time that no estimate covers: ticks of the loop, the slowest job of a wave."""
_MAX_RESERVE_DEVICE, _MAX_RESERVE_WALL = 0.4, 0.5
_HORIZONS = (1.0, 0.8, 0.65, 0.5)
_CAREFUL_SEEDS, _LONGEST_CAREFUL = 3, 4


class Sizes(Protocol):
    """The settings that a plan honours (`--set search.*`); None leaves the choice to the plan."""

    @property
    def mode(self) -> str | None:
        """watch, careful or tree."""

    @property
    def steps(self) -> int | None:
        """Optimiser steps of a node."""

    @property
    def max_nodes(self) -> int | None:
        """Careful and search nodes together."""

    @property
    def careful_seeds(self) -> int | None:
        """Seeds of the careful recipe."""

    @property
    def drafts(self) -> int | None:
        """Drafts from the base model."""

    @property
    def max_depth(self) -> int:
        """Longest path of a search node, in edges."""

    @property
    def confirm_seeds(self) -> int | None:
        """Fresh seeds of each confirmed arm."""

    @property
    def finalists(self) -> int:
        """Search nodes that are confirmed."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """One way to spend the budget on a tree."""

    steps: int
    depth: int
    seeds: int
    nodes: int
    reserve_s: float
    fits: bool


def make_plan(
    budget: BudgetSpec,
    cost: JobCost,
    settings: Sizes,
    *,
    model_name: str,
    seed_deviation: float = 0.02,
    slots: int | None = None,
) -> Plan:
    """The plan of a study; pure.

    The mode follows from U, the number of full runs that the budget buys: for a tree after the smallest
    confirmation (paths of one node) is put aside, otherwise after the test. A tree gets the deepest paths
    whose confirmation leaves most of the budget to the search; where the default horizon leaves no room for
    eight nodes and two levels, it is shortened to no less than half.

    Args:
        budget: the grant.
        cost: the cost model.
        settings: what the user fixed.
        model_name: decides the default number of steps.
        seed_deviation: assumed standard deviation of a recipe's dev score over seeds, as a share.
        slots: jobs at a time; default: one a device.

    Raises:
        ConfigError: the budget does not pay for what was asked; the message has what is missing.
    """
    slots = slots or budget.devices
    steps = settings.steps or default_steps(model_name)
    smallest = confirm_device_s(cost, steps, settings.finalists + 1, settings.confirm_seeds or CONFIRM_SEEDS)
    for_tree = _full_runs(budget, cost, steps, smallest)
    full_runs = _full_runs(budget, cost, steps, cost.eval_s)
    mode = settings.mode or (
        "tree" if for_tree > TREE_ABOVE else "careful" if full_runs >= WATCH_BELOW else "watch"
    )
    if mode == "tree":
        return _tree(budget, cost, settings, steps, slots, for_tree, seed_deviation)
    return _without_search(budget, cost, settings, mode, steps, slots, full_runs, seed_deviation)


def _full_runs(budget: BudgetSpec, cost: JobCost, steps: int, reserve_s: float) -> float:
    base_s = 2 * cost.eval_s
    return max(0.0, (budget.device_s - reserve_s - base_s) / node_device_s(cost, steps))


def _tree(
    budget: BudgetSpec,
    cost: JobCost,
    settings: Sizes,
    steps: int,
    slots: int,
    full_runs: float,
    seed_deviation: float,
) -> Plan:
    shape = _shape(budget, cost, settings, steps, slots)
    nodes = settings.max_nodes or shape.nodes
    careful = settings.careful_seeds or min(nodes, 3 if nodes >= 20 else 2)
    drafts = settings.drafts if settings.drafts is not None else max(2, min(6, ceil(nodes / 6)))
    return Plan(
        mode="tree",
        slots=slots,
        steps=shape.steps,
        careful_seeds=careful,
        drafts=drafts,
        max_depth=shape.depth,
        max_nodes=nodes,
        finalists=settings.finalists,
        confirm_seeds=shape.seeds,
        job_s=cost.job_s(shape.steps),
        confirm_reserve_s=shape.reserve_s,
        full_runs=full_runs,
        provable_gain=provable_gain(shape.seeds, seed_deviation),
        cost=cost,
    )


def _shape(budget: BudgetSpec, cost: JobCost, settings: Sizes, steps: int, slots: int) -> _Shape:
    """The first shape that leaves room, from the longest and deepest down; else the roomiest one."""
    shapes = list(_shapes(budget, cost, settings, steps, slots))
    for shape in shapes:
        if shape.fits:
            return shape
    wanted = (settings.careful_seeds or 1) + 1
    best = max(shapes, key=lambda shape: (min(shape.nodes, wanted), shape.seeds, shape.nodes, shape.steps))
    needed = best.reserve_s + wanted * node_device_s(cost, best.steps) + 2 * cost.eval_s
    if needed > budget.device_s:
        raise ConfigError(
            f"budget {budget.text} grants {budget.device_s:.0f} device-seconds; a search with confirmation "
            f"of {best.steps} steps a node needs at least {needed:.0f}: give more time, fewer search.steps, "
            "or search.mode=careful"
        )
    return best


def _shapes(budget: BudgetSpec, cost: JobCost, settings: Sizes, steps: int, slots: int) -> Iterator[_Shape]:
    horizons = (1.0,) if settings.steps else _HORIZONS
    asked = settings.confirm_seeds
    for seeds in (asked,) if asked else (CONFIRM_SEEDS, 2):
        for share in horizons:
            for depth in range(settings.max_depth, 0, -1):
                yield _shape_of(budget, cost, settings, max(2, round(share * steps)), depth, seeds, slots)


def _shape_of(
    budget: BudgetSpec, cost: JobCost, settings: Sizes, steps: int, depth: int, seeds: int, slots: int
) -> _Shape:
    arms, path = settings.finalists + 1, depth * steps
    reserve_s = confirm_device_s(cost, path, arms, seeds)
    reserve_wall = confirm_wall_s(cost, path, arms, seeds, slots)
    base_wall = 2 * cost.eval_s
    wall = budget.seconds * (1 - SLACK) - reserve_wall - base_wall
    by_wall = slots * int(wall / node_wall_s(cost, steps, slots))  # equal runs end in waves
    nodes = max(1, int(min(by_wall, _full_runs(budget, cost, steps, reserve_s))))
    fits = (
        reserve_s <= _MAX_RESERVE_DEVICE * budget.device_s
        and reserve_wall <= _MAX_RESERVE_WALL * budget.seconds
        and nodes >= min(MIN_TREE_NODES, settings.max_nodes or MIN_TREE_NODES)
        and depth >= min(MIN_TREE_DEPTH, settings.max_depth)
    )
    return _Shape(steps, depth, seeds, nodes, reserve_s, fits)


def _without_search(
    budget: BudgetSpec,
    cost: JobCost,
    settings: Sizes,
    mode: str,
    steps: int,
    slots: int,
    full_runs: float,
    seed_deviation: float,
) -> Plan:
    """Seeds of the careful recipe, as long as the budget allows."""
    seeds = settings.careful_seeds or (1 if mode == "watch" else _CAREFUL_SEEDS)
    affordable = _longest(budget, cost, seeds, slots)
    if affordable < 2 or (settings.steps and affordable < settings.steps):
        raise ConfigError(
            f"budget {budget.text} grants {budget.device_s:.0f} device-seconds; {seeds} careful run(s) of "
            f"{settings.steps or 2} steps need more: a job takes {cost.startup_s:.0f} s to start, "
            f"{cost.step_s:.2f} s a step, {cost.eval_s:.0f} s an evaluation"
        )
    steps = settings.steps or min(affordable, _LONGEST_CAREFUL * steps)
    return Plan(
        mode=mode,
        slots=slots,
        steps=steps,
        careful_seeds=seeds,
        drafts=0,
        max_depth=1,
        max_nodes=seeds,
        finalists=0,
        confirm_seeds=0,
        job_s=cost.job_s(steps),
        confirm_reserve_s=(seeds + 1) * cost.eval_s,
        full_runs=full_runs,
        provable_gain=provable_gain(seeds, seed_deviation, arms=1),
        cost=cost,
    )


def _longest(budget: BudgetSpec, cost: JobCost, seeds: int, slots: int) -> int:
    """The most steps that so many careful runs can have, each scored on dev and test."""
    waves = ceil(seeds / slots)
    test_s = (seeds + 1) * cost.eval_s
    wall = (budget.seconds * (1 - SLACK) - test_s - 2 * cost.eval_s) / waves - node_wall_s(
        cost, 0, min(slots, seeds)
    )
    device = (budget.device_s - test_s - 2 * cost.eval_s) / seeds - node_device_s(cost, 0)
    return int(min(wall, device) / cost.step_s)
