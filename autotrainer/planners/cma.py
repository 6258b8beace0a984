"""CmaPlanner: CMA-ES over the numeric knobs, told what every node of the tree gained."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any, ClassVar

from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, describe
from autotrainer.planners.random import from_knobs
from autotrainer.planners.space import TEMPERATURES, knobs_of, point_of, rates
from autotrainer.planners.tpe import gain
from autotrainer.recipe.recipe import Stage
from autotrainer.tree.proposal import Proposal, Purpose

if TYPE_CHECKING:
    from cmaes import CMA

SIGMA = 0.25
"""First step size, as a share of the box."""
_BETA_FLOOR, _BETA_TOP = 1e-4, 0.05
_BONUS_TOP = 0.01
_AXES = 5


class CmaPlanner:
    """CMA-ES on the logarithm of the learning rate, temperature, KL and entropy coefficients, and group size.

    The strategy starts at the careful recipe and is rebuilt from the tree at every call: scored nodes, in the
    order of their proposal, are told in whole generations; what is under way is not waited for.
    """

    name: ClassVar[str] = "cma"
    policy: ClassVar[str] = "restarts"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`."""
        careful = context.careful.stages[-1]
        strategy = _strategy(context, careful)
        knobs = _decode(careful, strategy.ask())
        change = Change(
            knobs=knobs, why=f"CMA-ES, generation {strategy.generation}: {describe(careful, knobs)}"
        )
        return from_knobs(context, parent, change, self.name)


def _strategy(context: PlanningContext, careful: Stage) -> CMA:
    import numpy as np
    from cmaes import CMA

    told = []
    for node in context.tree.with_purpose(Purpose.SEARCH):
        value = gain(context.tree, node)
        if value is not None:
            told.append((np.array(_encode(careful, node.proposal.recipe.stages[-1])), -value))
    strategy = CMA(
        mean=np.array(_encode(careful, careful)),
        sigma=SIGMA,
        bounds=np.array([[0.0, 1.0]] * _AXES),
        seed=context.rng.randrange(2**32),
    )
    size = strategy.population_size
    for first in range(0, len(told) - size + 1, size):
        strategy.tell(told[first : first + size])
    return strategy


def _encode(careful: Stage, stage: Stage) -> list[float]:
    """A stage as a point of the unit box."""
    (low, high), (cold, hot), point = rates(careful), TEMPERATURES, point_of(careful, stage)
    beta = float(stage.knobs.get("beta", 0.0))
    values = (
        log(point["learning_rate"] / low) / log(high / low),
        (point["temperature"] - cold) / (hot - cold),
        log(max(beta, _BETA_FLOOR) / _BETA_FLOOR) / log(_BETA_TOP / _BETA_FLOOR),
        float(stage.knobs.get("entropy_coef", 0.0)) / _BONUS_TOP,
        0.75 if point["larger_groups"] else 0.25,
    )
    return [min(1.0, max(0.0, value)) for value in values]


def _decode(careful: Stage, vector: Any) -> dict[str, Any]:
    (low, high), (cold, hot) = rates(careful), TEMPERATURES
    rate, heat, beta, bonus, groups = (float(value) for value in vector)
    point = {
        **point_of(careful, careful),
        "learning_rate": low * (high / low) ** rate,
        "temperature": cold + (hot - cold) * heat,
        "beta": 0.0 if beta < 0.05 else float(f"{_BETA_FLOOR * (_BETA_TOP / _BETA_FLOOR) ** beta:.3g}"),
        "entropy_coef": 0.0 if bonus < 0.05 else float(f"{_BONUS_TOP * bonus:.3g}"),
        "larger_groups": groups > 0.5,
    }
    return knobs_of(careful, point)
