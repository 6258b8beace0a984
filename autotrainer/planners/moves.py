"""Numeric moves: drafts around the careful recipe, perturbations of a parent, the box of random controls.

Completions a step stay what the cost model was measured with: larger groups take fewer prompts. Groups only
grow along a path; learning rate, KL coefficient, temperature and gradient clip go both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from autotrainer.planners.build import Change, clamp, describe
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import Stage
from autotrainer.search.frontier import base
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

_LOWEST_KL, _HIGHEST_KL = 1e-3, 5e-2
_TEMPERATURES = (0.7, 1.2)
_BELOW_LETHAL = 0.7


def drafts_around(stage: Stage) -> Iterator[Change]:
    """First attempts in a fixed order: learning rate x 3 and x 1/3, then larger groups."""
    rate = float(stage.knobs["learning_rate"])
    for factor in (3.0, 1 / 3):
        yield _draft(stage, learning_rate=_round(clamp("learning_rate", factor * rate)))
    larger = larger_groups(stage)
    if larger:
        yield _draft(stage, **larger)


def perturbation(stage: Stage, rng: Random, ceiling: float | None) -> Change:
    """A move of several knobs at once around a stage: always the learning rate, and one or two others.

    `ceiling` is a learning rate that has killed a run; the new one stays well below it.
    """
    knobs: dict[str, KnobValue] = {"learning_rate": _scaled_rate(stage, rng, 3.0, ceiling)}
    others = ["beta", "temperature", "max_grad_norm"] + (["groups"] if larger_groups(stage) else [])
    for other in rng.sample(others, rng.choice((1, 2))):
        knobs |= _move(other, stage, rng)
    return Change(knobs=knobs, why=f"a move of several knobs at once: {describe(stage, knobs)}")


def larger_groups(stage: Stage) -> dict[str, KnobValue]:
    """Twice the completions a prompt and half the prompts; empty where the prompts cannot be halved."""
    prompts, group = int(stage.knobs["prompts_per_step"]), int(stage.knobs["num_generations"])
    if prompts % 2 or prompts < 4 or group > 64:
        return {}
    return {"num_generations": 2 * group, "prompts_per_step": prompts // 2}


def lethal_rate(tree: Tree) -> float | None:
    """The lowest learning rate of a run that a kill rule stopped; None where none was."""
    pruned = [node for node in tree.with_state(NodeState.PRUNED) if node.findings]
    rates = [float(node.proposal.recipe.stages[-1].knobs.get("learning_rate", 0.0)) for node in pruned]
    return min((rate for rate in rates if rate > 0), default=None)


def raises_to_death(change: Change, stage: Stage, ceiling: float | None) -> bool:
    """Whether a change raises the learning rate to one that has killed a run."""
    here = float(stage.knobs["learning_rate"])
    rate = float(change.knobs.get("learning_rate", here))
    return ceiling is not None and rate > here and rate >= ceiling


def survives(change: Change, stage: Stage, ceiling: float | None) -> bool:
    """Whether a change keeps the learning rate below one that has killed a run."""
    rate = float(change.knobs.get("learning_rate", stage.knobs["learning_rate"]))
    return ceiling is None or rate < ceiling


def draft_centre(tree: Tree, careful: Stage) -> Stage:
    """What drafts vary: the careful recipe or, where that was killed, the newest answer from the base."""
    seeds = tree.with_purpose(Purpose.CAREFUL)
    if not any(node.state is NodeState.PRUNED for node in seeds):
        return careful
    answers = [
        node
        for node in tree.with_purpose(Purpose.SEARCH)
        if node.proposal.finding_node is not None
        and node.state is not NodeState.PRUNED
        and node.proposal.start.mode == "base"
        and node.id != base(tree).id
    ]
    return answers[-1].proposal.recipe.stages[-1] if answers else careful


def _draft(stage: Stage, **knobs: KnobValue) -> Change:
    return Change(knobs=knobs, why=f"a draft beside the careful recipe: {describe(stage, knobs)}")


def _scaled_rate(stage: Stage, rng: Random, factor: float, ceiling: float | None) -> float:
    rate = float(stage.knobs["learning_rate"]) * factor ** rng.uniform(-1.0, 1.0)
    if ceiling is not None and rate > _BELOW_LETHAL * ceiling:
        rate = _BELOW_LETHAL * ceiling * 0.1 ** rng.random()
    return _round(clamp("learning_rate", rate))


def _move(other: str, stage: Stage, rng: Random) -> dict[str, KnobValue]:
    if other == "groups":
        return larger_groups(stage)
    if other == "temperature":
        low, high = _TEMPERATURES
        here = float(stage.knobs.get("temperature", 1.0))
        return {"temperature": round(min(high, max(low, here + rng.uniform(-0.2, 0.2))), 3)}
    if other == "max_grad_norm":
        here = float(stage.knobs.get("max_grad_norm", 1.0))
        return {"max_grad_norm": _round(clamp("max_grad_norm", here * 4.0 ** rng.uniform(-1.0, 1.0)))}
    here = float(stage.knobs.get("beta", 0.0))
    return {"beta": 0.0 if here > 0 and rng.random() < 0.5 else _kl(rng)}


def _kl(rng: Random) -> float:
    return _round(_LOWEST_KL * (_HIGHEST_KL / _LOWEST_KL) ** rng.random())


def _round(value: float) -> float:
    return float(f"{value:.3g}")
