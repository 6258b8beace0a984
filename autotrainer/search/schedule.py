"""The schedule: careful seeds, search, confirmation, test. Pure functions that say what the loop does next.

    careful -> search -> confirm -> test -> done          (mode tree)
    careful -> test -> done                               (modes watch and careful)

A node is only proposed where device-seconds and time are left for it and, in a search, for the confirmation
after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Protocol, TypeAlias

from autotrainer.budget.ledger import Ledger
from autotrainer.recipe.recipe import Recipe
from autotrainer.search.estimate import (
    confirm_device_s,
    confirm_wall_s,
    node_device_s,
    node_wall_s,
    path_slowness,
    usual_slowness,
)
from autotrainer.search.frontier import base
from autotrainer.search.plan import Plan
from autotrainer.search.planning import SLACK
from autotrainer.search.repairs import is_repairable
from autotrainer.search.stopping import AFTER, constant_is_as_good, is_unchanged
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Edge, Proposal, Purpose, Start
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

MIN_CONFIRM_SEEDS = 2
_MOST_JUDGED = 1000
"""Nodes up to which a search is judged for being in vain at every step."""
OVERTIME = 2
"""Without a limit of the user's, a search that is cheaper than planned may run so many times its nodes."""


class Limits(Protocol):
    """The setting that the schedule honours (`--set search.max_nodes`)."""

    @property
    def max_nodes(self) -> int | None:
        """Careful and search nodes together."""


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask for one more node: a careful seed, or what policy and planner choose (`parent` None)."""

    purpose: Purpose
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before a running node ends."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Go to the next phase; `confirm_seeds` is the seeds an arm that a confirmation can still pay for."""

    phase: str
    reason: str
    confirm_seeds: int | None = None


Move: TypeAlias = Propose | Wait | Advance


def next_move(tree: Tree, ledger: Ledger, plan: Plan, phase: str, settings: Limits, now: float) -> Move:
    """What comes next in `phase` at time `now` (epoch seconds).

    Raises:
        ValueError: there is no such phase.
    """
    if phase == "careful":
        return _careful(tree, ledger, plan, now)
    if phase == "search":
        return _search(tree, ledger, plan, settings, now)
    if phase == "confirm":
        return _confirm(tree)
    if phase in ("test", "done"):
        return Wait()
    raise ValueError(f"unknown phase {phase!r}: known are careful, search, confirm, test, done")


def _careful(tree: Tree, ledger: Ledger, plan: Plan, now: float) -> Move:
    seeds = [node for node in tree.with_purpose(Purpose.CAREFUL) if not is_repairable(tree, node)]
    searching = plan.mode == "tree"
    lost = next((node for node in seeds if node.state in (NodeState.PRUNED, NodeState.FAILED)), None)
    if searching and lost is not None:
        return Advance(
            "search",
            f"careful seed {lost.id} was {lost.state}: more seeds of the same recipe would tell nothing",
        )
    if len(seeds) < plan.careful_seeds and lost is None:
        if _affords(tree, ledger, plan, now, reserve_s=_test_s(plan), reserve_wall=_test_s(plan)):
            return Propose(Purpose.CAREFUL)
        reason = f"the budget ends after {len(seeds)} of {plan.careful_seeds} careful seeds"
    else:
        reason = f"{len(seeds)} careful seeds are proposed"
    if searching:
        return Advance("search", reason)
    return Wait() if tree.active else Advance("test", f"mode {plan.mode}: {reason}, there is no search")


def _search(tree: Tree, ledger: Ledger, plan: Plan, settings: Limits, now: float) -> Move:
    spent = len(tree.with_purpose(Purpose.CAREFUL, Purpose.SEARCH))
    limit = settings.max_nodes or OVERTIME * plan.max_nodes
    wall = confirm_wall_s(
        plan.cost, plan.max_depth * plan.steps, plan.finalists + 1, plan.confirm_seeds, plan.slots
    )
    slow = path_slowness(tree, plan.cost, finalists(tree, plan))
    in_vain = constant_is_as_good(tree) if AFTER * plan.max_nodes <= spent <= _MOST_JUDGED else None
    if spent >= limit:
        reason = f"{spent} of {limit} nodes are spent"
    elif in_vain is not None:
        reason = f"the search stops after {spent} nodes: {in_vain}"
    elif _affords(tree, ledger, plan, now, reserve_s=slow * plan.confirm_reserve_s, reserve_wall=slow * wall):
        return Propose(Purpose.SEARCH)
    else:
        reason = f"after {spent} nodes the budget affords no other one before the confirmation"
    return Wait() if tree.active else _to_confirmation(tree, ledger, plan, now, reason)


def _to_confirmation(tree: Tree, ledger: Ledger, plan: Plan, now: float, reason: str) -> Advance:
    found = finalists(tree, plan)
    if not found:
        level = bar(tree)
        known = f"{level:.3f}" if level is not None else "unknown"
        return Advance(
            "test",
            f"{reason}; search did not pay: no search node is above the careful recipe's dev score ({known})",
        )
    seeds = _seeds_that_fit(tree, ledger, plan, found, now)
    names = " and ".join(node.id for node in found)
    if seeds == plan.confirm_seeds:
        return Advance("confirm", f"{reason}; {names} on {seeds} fresh seeds", seeds)
    kept = seeds or MIN_CONFIRM_SEEDS
    doubt = "" if seeds else ", and even those may not end before the deadline"
    return Advance(
        "confirm",
        f"{reason}; {names} on {kept} fresh seeds instead of {plan.confirm_seeds}: the reserve for the "
        f"confirmation was eaten into{doubt}",
        kept,
    )


def _confirm(tree: Tree) -> Move:
    if tree.active:
        return Wait()
    nodes = tree.with_purpose(Purpose.CONFIRM, Purpose.CONTROL)
    if not nodes:
        return Advance("test", "search did not pay: there is no finalist to confirm")
    done = sum(node.state is NodeState.COMPLETED for node in nodes)
    return Advance("test", f"{done} of {len(nodes)} confirmation runs are scored")


def _affords(
    tree: Tree, ledger: Ledger, plan: Plan, now: float, *, reserve_s: float, reserve_wall: float
) -> bool:
    """Whether one more node fits beside the reserve; the ledger does not know evaluations under way."""
    pending = len(tree.active) * plan.cost.eval_s
    slow = usual_slowness(tree, plan.cost)
    device = ledger.remaining - pending - reserve_s >= slow * node_device_s(plan.cost, plan.steps)
    wall = slow * node_wall_s(plan.cost, plan.steps, plan.slots) + reserve_wall
    return device and wall <= _time_left(ledger, now)


def _time_left(ledger: Ledger, now: float) -> float:
    """Seconds to the deadline, less the slack that no estimate covers."""
    if ledger.deadline is None:
        return float("inf")
    return (ledger.deadline - now) * (1 - SLACK)


def _test_s(plan: Plan) -> float:
    return (plan.careful_seeds + 1) * plan.cost.eval_s


def _seeds_that_fit(tree: Tree, ledger: Ledger, plan: Plan, found: tuple[Node, ...], now: float) -> int:
    """The most seeds an arm, up to the plan's, that budget and time allow; 0 where not even two do."""
    steps, arms = longest_path(tree, found), len(found) + 1
    slow = path_slowness(tree, plan.cost, found)
    for seeds in range(plan.confirm_seeds, MIN_CONFIRM_SEEDS - 1, -1):
        device = slow * confirm_device_s(plan.cost, steps, arms, seeds)
        wall = slow * confirm_wall_s(plan.cost, steps, arms, seeds, plan.slots)
        if device <= ledger.remaining and wall <= _time_left(ledger, now):
            return seeds
    return 0


def careful_mean(tree: Tree) -> float | None:
    """Mean dev score of the completed careful seeds; None where none completed."""
    scores = [
        score
        for node in tree.candidates
        if node.proposal.purpose is Purpose.CAREFUL and (score := node.score("dev")) is not None
    ]
    return fmean(scores) if scores else None


def bar(tree: Tree) -> float | None:
    """What a finalist has to be above: the careful mean and the base's dev score, as far as known."""
    known = [score for score in (careful_mean(tree), base(tree).score("dev")) if score is not None]
    return max(known, default=None)


def finalists(tree: Tree, plan: Plan) -> tuple[Node, ...]:
    """The search nodes worth a confirmation: the best by dev, above the bar, at most the plan's number.

    A path that is the careful recipe all along has nothing to confirm: it is the control.
    """
    level = bar(tree)
    above = [
        node
        for node in tree.candidates
        if node.proposal.purpose is Purpose.SEARCH
        and (score := node.score("dev")) is not None
        and (level is None or score > level)
        and not is_unchanged(tree, node)
    ]
    above.sort(key=lambda node: (-(node.score("dev") or 0.0), node.index))
    return tuple(above[: plan.finalists])


def longest_path(tree: Tree, nodes: tuple[Node, ...]) -> int:
    """Optimiser steps from the base model to the end of the longest of the nodes' paths."""
    return max(sum(stage.steps for stage in tree.path_stages(node.id)) for node in nodes)


def proposals_for_confirmation(
    tree: Tree, plan: Plan, careful: Recipe, seed: int, *, seeds: int | None = None
) -> list[Proposal]:
    """The confirmation: each finalist's whole path on fresh seeds, and as long careful runs on as many.

    In rounds, one seed of every arm after the other, so that a cut-off confirmation is balanced. Equal trees
    (confirmation nodes aside) give equal proposals, so a crash between two of them is made good by asking
    again. Empty while a node of the search runs and where there is no finalist.
    """
    running = [node for node in tree.active if node.proposal.purpose in (Purpose.SEARCH, Purpose.CAREFUL)]
    found = finalists(tree, plan)
    if running or not found:
        return []
    rng, used = Random(f"{seed}:confirm"), {node.proposal.recipe.seed for node in _not_confirmation(tree)}
    steps, result = longest_path(tree, found), []
    control = replace(careful, stages=(replace(careful.stages[0], steps=steps),))
    for _ in range(seeds or plan.confirm_seeds):
        for node in found:
            result.append(_confirmation(tree, node, _fresh(rng, used)))
        result.append(_control(tree, replace(control, seed=_fresh(rng, used))))
    return result


def _not_confirmation(tree: Tree) -> list[Node]:
    return [node for node in tree.nodes if node.proposal.purpose not in (Purpose.CONFIRM, Purpose.CONTROL)]


def _fresh(rng: Random, used: set[int]) -> int:
    while (seed := rng.randrange(2**31)) in used:
        pass
    used.add(seed)
    return seed


def _confirmation(tree: Tree, finalist: Node, seed: int) -> Proposal:
    skills = [skill for node in tree.lineage(finalist.id) for skill in node.proposal.skills]
    return Proposal(
        edge=Edge.REPLICATE,
        purpose=Purpose.CONFIRM,
        parents=(base(tree).id, finalist.id),
        start=Start(),
        recipe=tree.path_recipe(finalist.id, seed),
        skills=tuple(dict.fromkeys(skills)),
        planner="schedule",
        hypothesis=f"the whole path of {finalist.id} from the base model does as well on a fresh seed",
    )


def _control(tree: Tree, recipe: Recipe) -> Proposal:
    return Proposal(
        edge=Edge.DRAFT,
        purpose=Purpose.CONTROL,
        parents=(base(tree).id,),
        start=Start(),
        recipe=recipe,
        planner="schedule",
        hypothesis=f"the careful recipe on a fresh seed, as long as a finalist: {recipe.steps} steps",
    )
