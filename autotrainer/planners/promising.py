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

CANDIDATES = 96
OPTIMISM = 0.7
"""Standard deviations that are added to the expected gain."""
_KEEP = 0.6
"""Chance of a knob to stay what it is in a candidate."""


def promising(
    context: PlanningContext, stage: Stage, depth: int, ceiling: float | None
) -> Iterator[Change]:
    """Changes of a stage that starts at a depth, the one with the highest upper bound of its gain first.

    Candidates are far points of the box and near ones, with most knobs left alone. Capacity never shrinks
    along a path, and a learning rate stays below `ceiling`, one that has killed a run. None before the
    surrogate knows enough.
    """
    careful = context.careful.stages[-1]
    model = Surrogate(context.tree, careful)
    if not model.ready:
        return
    found = [_candidate(careful, stage, depth, context.rng) for _ in range(CANDIDATES)]
    found = [knobs for knobs in found if knobs and (ceiling is None or float(knobs["learning_rate"]) < ceiling)]
    if not found:
        return
    stages = [Stage(stage.algorithm, stage.steps, {**stage.knobs, **knobs}) for knobs in found]
    predicted = model.predict([coordinates(careful, one, depth) for one in stages])
    bounds = [
        mean + OPTIMISM * deviation
        for mean, deviation in zip(predicted.mean_C, predicted.deviation_C, strict=True)
    ]
    for place in sorted(range(len(found)), key=lambda index: -bounds[index])[:8]:
        knobs = found[place]
        yield Change(knobs=knobs, why=f"expected by the surrogate: {describe(stage, knobs)}")


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
    for name in [name for name in knobs if depth and KNOBS[name].role is Role.CAPACITY and name != "prompts_per_step"]:
        if float(knobs[name]) < float(stage.knobs.get(name, 0)):
            del knobs[name]
            if name == "num_generations":
                knobs.pop("prompts_per_step", None)
    return knobs
