"""GridPlanner: a grid as people run it, the learning rate first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import ClassVar

from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, describe, is_known
from autotrainer.planners.random import from_knobs
from autotrainer.planners.space import draw, knobs_of, point_of, rates
from autotrainer.recipe.recipe import Stage
from autotrainer.tree.proposal import Proposal

_RATES = (3.0, 1 / 3, 10.0, 1 / 10, 1.0)
"""Factors of the careful learning rate: two a decade, nearest first; careful seeds hold the careful point."""
_BETAS, _TEMPERATURES = (0.0, 0.01), (1.0, 1.2)
_BONUSES, _CAPS = (0.0, 0.003), (1.0, 1.5)


class GridPlanner:
    """Walks a fixed grid: learning rate, then KL coefficient, larger groups, entropy bonus, cap, temperature.

    Points that the tree has are left out; after the last one it draws at random.
    """

    name: ClassVar[str] = "grid"
    policy: ClassVar[str] = "restarts"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`."""
        careful = context.careful.stages[-1]
        for point in _grid(careful):
            knobs = knobs_of(careful, point)
            proposal = from_knobs(
                context, parent, Change(knobs=knobs, why=f"grid: {describe(careful, knobs)}"), self.name
            )
            if not is_known(context, proposal):
                return proposal
        knobs = knobs_of(careful, draw(careful, context.rng))
        return from_knobs(context, parent, Change(knobs=knobs, why="after the grid: random knobs"), self.name)


def _grid(careful: Stage) -> Iterator[dict[str, object]]:
    (low, high), here = rates(careful), point_of(careful, careful)
    axes = product(_TEMPERATURES, _CAPS, _BONUSES, (False, True), _BETAS, _RATES)
    for temperature, cap, bonus, larger, beta, factor in axes:
        rate = min(high, max(low, factor * here["learning_rate"]))
        yield {
            **here,
            "learning_rate": rate,
            "beta": beta,
            "larger_groups": larger,
            "entropy_coef": bonus,
            "cap": cap,
            "temperature": temperature,
        }
