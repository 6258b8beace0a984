"""TpePlanner: Optuna's tree-structured Parzen estimator, told what every node of the tree gained."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, describe
from autotrainer.planners.random import from_knobs
from autotrainer.planners.space import (
    BETAS,
    BONUSES,
    CAPS,
    LOSSES,
    TEMPERATURES,
    inside,
    knobs_of,
    point_of,
    rates,
)
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


class TpePlanner:
    """Numbers alone, blind to findings. A trial is a node, its value the gain on dev over its start.

    The study is rebuilt from the tree at every call and its sampler seeded by the context, so that equal
    prefixes give equal proposals. Nodes under way count as the worst value (the constant liar), so that
    parallel slots spread out.
    """

    name: ClassVar[str] = "tpe"
    policy: ClassVar[str] = "restarts"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`."""
        careful = context.careful.stages[-1]
        study = _study(context, careful)
        knobs = knobs_of(careful, study.ask(_space(careful)).params)
        change = Change(
            knobs=knobs, why=f"TPE after {len(study.trials) - 1} nodes: {describe(careful, knobs)}"
        )
        return from_knobs(context, parent, change, self.name)


def _study(context: PlanningContext, careful: Stage) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(
        seed=context.rng.randrange(2**32), n_startup_trials=STARTUP, multivariate=True
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space = _space(careful)
    trials = []
    for node in context.tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL):
        value = gain(context.tree, node)
        point = point_of(careful, node.proposal.recipe.stages[-1])
        if inside(careful, point):
            trials.append((point, value))
    worst = min((value for _, value in trials if value is not None), default=0.0)
    for point, value in trials:
        told = worst if value is None else value
        study.add_trial(optuna.trial.create_trial(params=point, distributions=space, value=told))
    return study


def _space(careful: Stage) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        "learning_rate": FloatDistribution(*rates(careful), log=True),
        "temperature": FloatDistribution(*TEMPERATURES),
        "beta": CategoricalDistribution(BETAS),
        "entropy_coef": CategoricalDistribution(BONUSES),
        "loss_type": CategoricalDistribution(LOSSES),
        "larger_groups": CategoricalDistribution((False, True)),
        "cap": CategoricalDistribution(CAPS),
    }


def gain(tree: Tree, node: Node) -> float | None:
    """The gain on dev over the start; None where it is not known.

    A collapsed node lost all of it; one that was stopped or failed for another reason has gained nothing.
    """
    start = node.proposal.start.node or base(tree).id
    before = tree[start].score("dev")
    if before is None:
        return None
    if node.state in (NodeState.PRUNED, NodeState.FAILED):
        return -before if any(finding.kills for finding in node.findings) else 0.0
    after = node.score("dev")
    return after - before if after is not None else None
