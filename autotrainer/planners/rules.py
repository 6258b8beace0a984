"""RulesPlanner: findings call for skills, by evidence; where no skill has an answer, a numeric move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from statistics import median
from typing import ClassVar

from autotrainer.diagnostics.series import REWARD, thirds, z_change
from autotrainer.errors import PlannerError
from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, child, draft, is_known
from autotrainer.planners.moves import (
    draft_centre,
    drafts_around,
    lethal_rate,
    perturbation,
    raises_to_death,
    survives,
)
from autotrainer.planners.promising import CAUTION, OPTIMISM, anywhere, better_than_going_on, promising
from autotrainer.search.frontier import base
from autotrainer.tree.finding import Evidence, Finding, Severity
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Proposal
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

TRIES = 32
"""Numeric moves that are drawn before the planner gives up finding a new one."""
_SUSPECT_ROWS, _SUSPECT_Z = 20, 3.0
LOST_GAIN = -0.05
"""What a skill's attempt counts for in its evidence where the node was pruned or failed."""
_COSTS = ("none", "low", "medium", "high")
_URGENCY = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


class RulesPlanner:
    """The planner that needs no language model.

    The parent's findings are taken in the order of severity, then onset. For each, the skills that treat it
    are tried in the order of their evidence in this study, then of the library; two answers to different
    findings that do not touch each other are made at once. On a parent without warnings, skills for healthy
    runs and numeric moves take turns. What is in the tree already (same start, same recipe but for the seed)
    is never proposed again.
    """

    name: ClassVar[str] = "rules"

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`.

        Raises:
            PlannerError: everything that it knows for this node was proposed before.
        """
        node = context.tree[parent]
        options = _drafts(context) if node.id == base(context.tree).id else _children(context, node)
        for proposal in options:
            if not is_known(context, proposal):
                return proposal
        raise PlannerError(f"the rules planner has nothing new to offer for node {parent}")


def _drafts(context: PlanningContext) -> Iterator[Proposal]:
    """A learning rate bracket first, then what the surrogate expects most of, then anything new."""
    ceiling = lethal_rate(context.tree)
    centre = draft_centre(context.tree, context.careful.stages[-1])
    recipe = context.careful.with_knobs(centre.knobs)
    changes = chain(
        drafts_around(centre),
        promising(context, centre, 0, ceiling, OPTIMISM),
        (anywhere(centre, context.rng) for _ in range(TRIES)),
    )
    for change in changes:
        if survives(change, centre, ceiling):
            yield draft(context, recipe, change, RulesPlanner.name)


def _children(context: PlanningContext, node: Node) -> Iterator[Proposal]:
    """What an ill node needs; a healthy one goes on as it is first, then skills and numbers take turns."""
    skilled = (child(context, node, change, RulesPlanner.name) for change in _answers(context, node))
    if _ill(node) or node.state is NodeState.PRUNED or _suspicion(context, node):
        yield from skilled
        yield from _moves(context, node)
        return
    if not context.tree.children(node.id):
        stage, depth = node.proposal.recipe.stages[-1], context.tree.depth(node.id)
        change = better_than_going_on(context, stage, depth, lethal_rate(context.tree))
        if change is not None:
            yield child(context, node, change, RulesPlanner.name)
    yield child(context, node, Change(why="as it was: the run is healthy"), RulesPlanner.name)
    if not _turn_of_numbers(context.tree):
        yield from (proposal for proposal in skilled if _promises(context.tree, proposal))
    yield from _moves(context, node)


def _promises(tree: Tree, proposal: Proposal) -> bool:
    """Whether none of the skills has done worse in this study than doing nothing."""
    return all(evidence(tree, skill) >= 0 for skill in proposal.skills)


def _moves(context: PlanningContext, node: Node) -> Iterator[Proposal]:
    stage, ceiling = node.proposal.recipe.stages[-1], lethal_rate(context.tree)
    moves = chain(
        promising(context, stage, context.tree.depth(node.id), ceiling, CAUTION),
        (perturbation(stage, context.rng, ceiling) for _ in range(TRIES)),
    )
    for change in moves:
        if node.state is NodeState.PRUNED:
            change = Change(
                knobs=change.knobs,
                why=change.why,
                findings=tuple(_treatable(context, node)),
                before_onset=True,
            )
        yield child(context, node, change, RulesPlanner.name)


def _answers(context: PlanningContext, node: Node) -> Iterator[Change]:
    """Pairs of answers to different findings first, then single ones, finding by finding."""
    by_finding = [list(_skills_for(context, node, finding)) for finding in _treatable(context, node)]
    for one, two in combinations([changes[0] for changes in by_finding if changes], 2):
        joined = one.joined(two) if one.skills != two.skills else None
        if joined is not None:
            yield joined
    for changes in by_finding:
        yield from changes


def _skills_for(context: PlanningContext, node: Node, finding: Finding) -> Iterator[Change]:
    recipe, findings = node.proposal.recipe, node.findings
    for skill_id in _by_evidence(context, finding.kind):
        code = context.library[skill_id].code
        if not code.applies(recipe, findings):
            continue
        change = Change.of_skill(skill_id, code.propose(recipe, findings), [finding])
        if not raises_to_death(change, recipe.stages[-1], lethal_rate(context.tree)):
            yield change


def _by_evidence(context: PlanningContext, kind: str) -> list[str]:
    fitting = [skill for skill, loaded in context.library.items() if kind in loaded.card.treats]
    return sorted(
        fitting,
        key=lambda skill: (
            -evidence(context.tree, skill) - context.beliefs.get(skill, 0.0),
            _COSTS.index(context.library[skill].card.cost),
        ),
    )


def evidence(tree: Tree, skill: str) -> float:
    """What a skill gained on dev in this study beyond what a node of that depth gains, shrunk towards 0.

    The sum over its nodes by their number plus one.
    """
    usual = _usual_gains(tree)
    gains = [
        found - usual.get(tree.depth(node.id), 0.0) if found != LOST_GAIN else found
        for node in tree.nodes
        if skill in node.proposal.skills and (found := _gain(tree, node)) is not None
    ]
    return sum(gains) / (len(gains) + 1)


def _usual_gains(tree: Tree) -> dict[int, float]:
    """Median gain of the completed nodes of each depth."""
    gains: dict[int, list[float]] = {}
    for node in tree.candidates:
        found = _gain(tree, node)
        if found is not None:
            gains.setdefault(tree.depth(node.id), []).append(found)
    return {depth: median(values) for depth, values in gains.items()}


def _gain(tree: Tree, node: Node) -> float | None:
    """The gain on dev over the checkpoint that a node started from."""
    if node.state in (NodeState.PRUNED, NodeState.FAILED):
        return LOST_GAIN
    origin = node.proposal.start.node or base(tree).id
    before, after = tree[origin].score("dev"), node.score("dev")
    return after - before if before is not None and after is not None else None


def _treatable(context: PlanningContext, node: Node) -> list[Finding]:
    found = [*node.findings, *_suspicion(context, node)]
    return sorted(found, key=lambda finding: (_URGENCY[finding.severity], finding.onset_step, finding.kind))


def _suspicion(context: PlanningContext, node: Node) -> list[Finding]:
    """What no metric of the run shows alone: its reward rose and dev fell."""
    gain = _gain(context.tree, node)
    if node.state is not NodeState.COMPLETED or gain is None or gain >= 0:
        return []
    if any(finding.severity is not Severity.INFO for finding in node.findings):
        return []
    rewards = context.metrics(node.id).values(REWARD)
    if len(rewards) < _SUSPECT_ROWS:
        return []
    early, _, late = thirds(rewards)
    rise = z_change(early, late)
    if rise < _SUSPECT_Z:
        return []
    return [
        Finding(
            kind="reward_hacking",
            pathology="P07",
            severity=Severity.WARNING,
            confidence=0.6,
            onset_step=max(1, node.last_step // 2),
            message=(
                f"the training reward rose and dev fell by {-gain:.3f}: what is paid is not what is wanted"
            ),
            evidence=(
                Evidence(REWARD, (1, node.last_step), rise, _SUSPECT_Z),
                Evidence("dev", (0, 0), gain, 0.0),
            ),
            confirm="20 completions with a high reward, read against the gold answers",
        )
    ]


def _ill(node: Node) -> bool:
    """Whether a diagnostic has found anything wrong."""
    return any(finding.severity is not Severity.INFO for finding in node.findings)


def _turn_of_numbers(tree: Tree) -> bool:
    """Whether numeric moves are behind skills among the children of healthy nodes."""
    healthy = [node for node in tree.nodes if _grown(tree, node)]
    skilled = sum(bool(node.proposal.skills) for node in healthy)
    return skilled > len(healthy) - skilled


def _grown(tree: Tree, node: Node) -> bool:
    parents: Iterable[str] = node.proposal.parents[:1]
    return any(parent != base(tree).id and not _ill(tree[parent]) for parent in parents)
