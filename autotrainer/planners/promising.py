"""Numeric proposals in the order of what the surrogate expects of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, clamp, describe
from autotrainer.planners.space import draw, knobs_of
from autotrainer.planners.surrogate import Surrogate, coordinates
from autotrainer.recipe.knobs import KNOBS, KnobValue, Role
from autotrainer.recipe.recipe import Stage

CANDIDATES, KEPT = 96, 8
OPTIMISM, CAUTION = 0.7, 0.2
"""Standard deviations that are added to the expected gain: of a draft, and of a change on a path."""
MARGIN = 0.25
"""By so many standard deviations of the gains a change has to be better than none to be made unasked."""
_KEEP = 0.6
"""Chance of a knob to stay what it is in a candidate."""


def promising(
    context: PlanningContext, stage: Stage, depth: int, ceiling: float | None, optimism: float
) -> Iterator[Change]:
    """Changes of a stage that starts at a depth, the one with the highest upper bound of its gain first.

    Candidates are far points of the box and near ones, with most knobs left alone. Capacity never shrinks
    along a path, and a learning rate stays below `ceiling`, one that has killed a run. None before the
    surrogate knows enough.
    """
    for knobs, _ in _ranked(context, stage, depth, ceiling, optimism):
        yield Change(knobs=knobs, why=f"expected by the surrogate: {describe(stage, knobs)}")


def better_than_going_on(
    context: PlanningContext, stage: Stage, depth: int, ceiling: float | None
) -> Change | None:
    """The change that is expected to gain clearly more than going on without one; None where none is."""
    for knobs, advantage in _ranked(context, stage, depth, ceiling, 0.0):
        if advantage > MARGIN:
            return Change(knobs=knobs, why=f"expected to beat going on: {describe(stage, knobs)}")
        break
    return None


def anywhere(stage: Stage, rng: Random) -> Change:
    """A point of the whole box: what spreads a first wave that nothing is known for."""
    knobs = knobs_of(stage, draw(stage, rng))
    return Change(knobs=knobs, why=f"anywhere in the box: {describe(stage, knobs)}")


def _ranked(
    context: PlanningContext, stage: Stage, depth: int, ceiling: float | None, optimism: float
) -> list[tuple[dict[str, KnobValue], float]]:
    """The best candidates with their expected advantage over no change, by the upper bound of their gain."""
    careful = context.careful.stages[-1]
    model = Surrogate(context.tree, careful)
    if not model.ready:
        return []
    drawn = [_candidate(careful, stage, depth, context.rng) for _ in range(CANDIDATES)]
    found = [knobs for knobs in drawn if ceiling is None or float(knobs["learning_rate"]) < ceiling]
    stages = [Stage(stage.algorithm, stage.steps, {**stage.knobs, **knobs}) for knobs in found]
    predicted = model.predict([coordinates(careful, one, depth) for one in (stage, *stages)])
    here, *means = predicted.mean_C
    bounds = [m + optimism * d for m, d in zip(means, predicted.deviation_C[1:], strict=True)]
    order = sorted(range(len(found)), key=lambda place: -bounds[place])[:KEPT]
    return [(found[place], means[place] - here) for place in order]


def _candidate(careful: Stage, stage: Stage, depth: int, rng: Random) -> dict[str, KnobValue]:
    """New values of a few knobs; the learning rate near or anywhere."""
    drawn = knobs_of(careful, draw(careful, rng))
    rate = float(stage.knobs["learning_rate"])
    near = float(f"{clamp('learning_rate', rate * 3.0 ** rng.uniform(-1.0, 1.0)):.3g}")
    knobs = {name: value for name, value in drawn.items() if rng.random() >= _KEEP}
    if "num_generations" in drawn and rng.random() < 1 - _KEEP:
        knobs |= {name: drawn[name] for name in ("num_generations", "prompts_per_step")}
    elif knobs.keys() & {"num_generations", "prompts_per_step"}:
        knobs.pop("num_generations", None)
        knobs.pop("prompts_per_step", None)
    knobs["learning_rate"] = drawn["learning_rate"] if rng.random() < 0.3 else near
    for name in [
        name for name in knobs if depth and KNOBS[name].role is Role.CAPACITY and name != "prompts_per_step"
    ]:
        if float(knobs[name]) < float(stage.knobs.get(name, 0)):
            del knobs[name]
            if name == "num_generations":
                knobs.pop("prompts_per_step", None)
    return knobs
