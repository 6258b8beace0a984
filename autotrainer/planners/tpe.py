"""TpePlanner: Optuna's tree-structured Parzen estimator, told what every node of the tree gained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, clamp, describe
from autotrainer.planners.moves import larger_groups
from autotrainer.planners.random import from_knobs
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import Stage
from autotrainer.search.frontier import base
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Proposal, Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

if TYPE_CHECKING:
    import optuna

STARTUP = 5
"""Nodes before the estimator is used; until then it draws at random."""
_BETAS = (0.0, 0.001, 0.003, 0.01, 0.03)
_TEMPERATURES = (0.7, 1.2)
_LOSSES = ("dapo", "grpo", "dr_grpo", "bnpo")


class TpePlanner:
    """Numbers alone, blind to findings. A trial is a node, its value the gain on dev over its start.

    The study is rebuilt from the tree at every call and its sampler seeded by the context, so that equal
    prefixes give equal proposals.
    """

    name: ClassVar[str] = "tpe"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`."""
        careful = context.careful.stages[-1]
        study = _study(context, careful)
        params = study.ask(_space(careful)).params
        knobs = _knobs(careful, params)
        change = Change(
            knobs=knobs, why=f"TPE after {len(study.trials) - 1} nodes: {describe(careful, knobs)}"
        )
        return from_knobs(context, parent, change, self.name)


def _study(context: PlanningContext, careful: Stage) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=context.rng.randrange(2**32), n_startup_trials=STARTUP)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space = _space(careful)
    for node in context.tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL):
        value = _value(context.tree, node)
        params = _params(careful, node.proposal.recipe.stages[-1])
        if value is not None and _inside(careful, params):
            study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
    return study


def _space(careful: Stage) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        "learning_rate": FloatDistribution(*_rates(careful), log=True),
        "temperature": FloatDistribution(*_TEMPERATURES),
        "beta": CategoricalDistribution(_BETAS),
        "loss_type": CategoricalDistribution(_LOSSES),
        "larger_groups": CategoricalDistribution((False, True)),
    }


def _knobs(careful: Stage, params: dict[str, Any]) -> dict[str, KnobValue]:
    knobs: dict[str, KnobValue] = {
        "learning_rate": float(f"{params['learning_rate']:.3g}"),
        "temperature": round(params["temperature"], 3),
        "beta": params["beta"],
        "loss_type": params["loss_type"],
    }
    return {**knobs, **(larger_groups(careful) if params["larger_groups"] else {})}


def _params(careful: Stage, stage: Stage) -> dict[str, Any]:
    """A node's knobs as a point of the space; a KL coefficient between two choices is the nearer one."""
    beta = float(stage.knobs.get("beta", 0.0))
    return {
        "learning_rate": stage.knobs["learning_rate"],
        "temperature": stage.knobs.get("temperature", 1.0),
        "beta": min(_BETAS, key=lambda choice: abs(choice - beta)),
        "loss_type": stage.knobs.get("loss_type", "dapo"),
        "larger_groups": stage.knobs["num_generations"] != careful.knobs["num_generations"],
    }


def _inside(careful: Stage, params: dict[str, Any]) -> bool:
    """Whether a point lies in the space; skills may have gone beyond it."""
    (low, high), (cold, hot) = _rates(careful), _TEMPERATURES
    inside = low <= params["learning_rate"] <= high and cold <= params["temperature"] <= hot
    return inside and params["loss_type"] in _LOSSES


def _rates(careful: Stage) -> tuple[float, float]:
    rate = float(careful.knobs["learning_rate"])
    return clamp("learning_rate", rate / 10), clamp("learning_rate", rate * 10)


def _value(tree: Tree, node: Node) -> float | None:
    """The gain on dev over the start; a pruned or failed node lost all of it."""
    start = node.proposal.start.node or base(tree).id
    before = tree[start].score("dev")
    if before is None:
        return None
    if node.state in (NodeState.PRUNED, NodeState.FAILED):
        return -before
    after = node.score("dev")
    return after - before if after is not None else None
