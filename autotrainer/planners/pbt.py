"""PbtPlanner: population based training, as Ray Tune defines it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import ClassVar, TypeVar

from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, child, clamp, describe
from autotrainer.planners.random import RandomPlanner
from autotrainer.planners.space import BETAS, BONUSES, CAPS, LOSSES, TEMPERATURES, draw, knobs_of
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import Stage
from autotrainer.search.frontier import base
from autotrainer.search.pbt import next_turn
from autotrainer.tree.proposal import Proposal
from autotrainer.tree.state import NodeState

RESAMPLE = 0.25
"""Chance of a hyperparameter to be drawn anew instead of perturbed (Ray's resample_probability)."""
_FACTORS = (1.2, 0.8)
Choice = TypeVar("Choice")


class PbtPlanner:
    """Members continue unchanged; one of the worst quarter takes over one of the best, weights and knobs.

    The knobs taken over are perturbed: drawn anew with a chance of a quarter, otherwise a number times 1.2 or
    0.8 and a choice moved to a neighbour (Jaderberg et al. 2017; Ray Tune's PopulationBasedTraining with its
    defaults). A clone's second parent is the member whose place it takes.
    """

    name: ClassVar[str] = "pbt"
    policy: ClassVar[str] = "pbt"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`."""
        node = context.tree[parent]
        if node.id == base(context.tree).id or node.state is NodeState.PRUNED:
            drawn = RandomPlanner().propose(context, base(context.tree).id)
            return replace(drawn, planner=self.name)
        turn = next_turn(context.tree, context.tree.depth(parent) + 1)
        if turn is None or turn.parent != parent or turn.replaces is None:
            return child(context, node, Change(why="the member goes on"), self.name)
        stage = node.proposal.recipe.stages[-1]
        knobs = explore(context.careful.stages[-1], stage, context.rng)
        change = Change(knobs=knobs, why=f"takes the place of {turn.replaces}: {describe(stage, knobs)}")
        proposal = child(context, node, change, self.name)
        return replace(proposal, parents=(parent, turn.replaces))


def explore(careful: Stage, stage: Stage, rng: Random) -> dict[str, KnobValue]:
    """Ray's explore step on every knob of the box."""
    fresh, old = draw(careful, rng), stage.knobs
    point = dict(fresh)
    if rng.random() >= RESAMPLE:
        point["learning_rate"] = clamp("learning_rate", float(old["learning_rate"]) * rng.choice(_FACTORS))
    if rng.random() >= RESAMPLE:
        cold, hot = TEMPERATURES
        point["temperature"] = min(hot, max(cold, float(old.get("temperature", 1.0)) * rng.choice(_FACTORS)))
    for name, choices in (("beta", BETAS), ("entropy_coef", BONUSES)):
        if rng.random() >= RESAMPLE:
            point[name] = _neighbour(choices, float(old.get(name, 0.0)), rng)
    if rng.random() >= RESAMPLE:
        point["loss_type"] = rng.choice(_around(LOSSES, LOSSES.index(str(old.get("loss_type", "dapo")))))
    if rng.random() >= RESAMPLE:
        point["larger_groups"] = old["num_generations"] != careful.knobs["num_generations"]
    if rng.random() >= RESAMPLE:
        length = float(old.get("max_completion_length", 1)) / float(
            careful.knobs.get("max_completion_length", 1)
        )
        point["cap"] = _neighbour(CAPS, length, rng)
    return knobs_of(careful, point)


def _neighbour(choices: tuple[float, ...], value: float, rng: Random) -> float:
    here = min(range(len(choices)), key=lambda place: abs(choices[place] - value))
    return rng.choice(_around(choices, here))


def _around(choices: tuple[Choice, ...], here: int) -> list[Choice]:
    return [choices[place] for place in (here - 1, here, here + 1) if 0 <= place < len(choices)]
