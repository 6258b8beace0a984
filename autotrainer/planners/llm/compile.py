"""From a decision to a proposal: bounds, roles, conflicts and shares are enforced here, after the model."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autotrainer.errors import AutotrainerError, ConfigError
from autotrainer.planners.base import PlanningContext
from autotrainer.planners.build import Change, child, draft, is_known
from autotrainer.planners.llm.decision import Decision, DecisionError, Edit, UseHook, UseReward
from autotrainer.planners.llm.loops import Mood
from autotrainer.planners.moves import lethal_rate
from autotrainer.recipe.compile import job_stages
from autotrainer.recipe.forks import fork_for
from autotrainer.recipe.knobs import KNOBS, KnobValue, Role, knob
from autotrainer.recipe.recipe import HookRef, RewardRef, Stage
from autotrainer.search.frontier import base
from autotrainer.tree.finding import Finding, Severity
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Edge, Prediction, Proposal, Purpose
from autotrainer.tree.state import NodeState, Validity

OVERRIDE_SHARE = 0.30
MAX_OVERRIDES = int(OVERRIDE_SHARE * len(KNOBS))
"""Knobs that one decision may set by itself."""
_STARTS = {
    "draft": ("base",),
    "restart": ("base",),
    "continue": ("last",),
    "transition": ("last",),
    "repair": ("before_onset", "base"),
}
EXTRA_METRICS = frozenset(
    ["dev", "reward", "probe/accuracy", "entropy", "kl_start", "completions/clipped_ratio"]
)


@dataclass(frozen=True, slots=True)
class Board:
    """What a decision is checked against."""

    context: PlanningContext
    selected: str
    """The node that the search policy wants to grow from."""
    suggestion: Mapping[str, KnobValue] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Editable files of the selected node's version by path (harness/hooks/x.py), without edits."""
    mood: Mood = Mood.FREE
    edits_allowed: bool = True


@dataclass(frozen=True, slots=True)
class Compiled:
    """A proposal, how many knobs the model set itself, and predictions that name no known metric."""

    proposal: Proposal
    overrides: int
    dropped: tuple[str, ...] = ()


def applicable(board: Board) -> list[str]:
    """The skills that apply to the selected node; one whose code fails does not."""
    node = board.context.tree[board.selected]
    recipe = board.context.careful if _is_base(board.context, node) else node.proposal.recipe
    found = []
    for name, skill in board.context.library.items():
        try:
            if skill.code.applies(recipe, node.findings):
                found.append(name)
        except Exception:  # noqa: BLE001 - a plugin's code; one that fails cannot be offered
            continue
    return found


def with_edge(board: Board, decision: Decision) -> Decision:
    """The decision with the edge that fits its parent, where it names none.

    From the base model every edge is a draft: its last checkpoint is the base.
    """
    tree = board.context.tree
    name = decision.parent or board.selected
    if name == base(tree).id:
        return decision.model_copy(update={"edge": "draft", "start": None})
    if decision.edge is not None:
        return decision
    killed = name in tree and tree[name].state is NodeState.PRUNED
    edge = "transition" if not killed else "repair" if tree[name].findings else "restart"
    return decision.model_copy(update={"edge": edge})


def compile_decision(board: Board, decision: Decision, planner: str) -> Compiled:
    """The proposal that a decision asks for.

    Raises:
        DecisionError: it breaks rules; the message has all of them, for the model.
    """
    context = board.context
    reasons: list[str] = []
    node = _parent(board, decision, reasons)
    if node is None:
        raise DecisionError("; ".join(reasons))
    _check_edge(board, decision, node, reasons)
    stage = context.careful.stages[-1] if _is_base(context, node) else node.proposal.recipe.stages[-1]
    treated, skilled = _skills(board, decision, node, reasons)
    overrides = _overrides(board, decision, stage, node, reasons)
    _check_mood(board, decision, node, reasons)
    hooks, rewards = _code(board, decision, stage, reasons)
    if reasons:
        raise DecisionError("; ".join(dict.fromkeys(reasons)))
    suggested = dict(board.suggestion) if decision.use_suggestion else {}
    knobs = {**suggested, **skilled.knobs, **overrides}
    predictions, dropped = _predictions(context, decision)
    change = Change(
        knobs=knobs,
        hooks=skilled.hooks,
        from_base=decision.edge in ("restart", "draft") or decision.start == "base",
        before_onset=decision.edge == "repair",
        why=decision.hypothesis,
        skills=tuple(decision.skills),
        findings=treated or (node.findings if decision.edge == "repair" else ()),
        predictions=predictions,
    )
    try:
        proposal = _propose(context, node, change, planner)
        refs = {hook.ref for hook in skilled.hooks}
        merged = (*(hook for hook in hooks if hook.ref not in refs), *skilled.hooks)
        proposal = _with_code(context, proposal, merged, rewards)
        job_stages(proposal.recipe, "cpu")
    except (ConfigError, ValueError) as error:
        raise DecisionError(str(error)) from error
    if not decision.edits and is_known(context, proposal):
        raise DecisionError(
            "a node with the same start and recipe is in the tree already: change something else"
        )
    return Compiled(proposal, len(overrides), dropped)


def _is_base(context: PlanningContext, node: Node) -> bool:
    return node.id == base(context.tree).id


def _parent(board: Board, decision: Decision, reasons: list[str]) -> Node | None:
    tree = board.context.tree
    name = base(tree).id if decision.edge == "draft" else decision.parent or board.selected
    if name not in tree:
        reasons.append(f"parent {name!r} is no node of the tree; the selected one is {board.selected}")
        return None
    node = tree[name]
    if node.id != board.selected and not _is_base(board.context, node):
        usable = node.state in (NodeState.COMPLETED, NodeState.PRUNED) and node.validity is Validity.VALID
        if not usable or node.proposal.purpose not in (Purpose.SEARCH, Purpose.CAREFUL):
            reasons.append(f"parent {name} is {node.state} and cannot be grown from")
            return None
    return node


def _check_edge(board: Board, decision: Decision, node: Node, reasons: list[str]) -> None:
    allowed = _STARTS[decision.edge or "transition"]
    if decision.start is not None and decision.start not in allowed:
        reasons.append(f"edge {decision.edge} starts from {' or '.join(allowed)}, not from {decision.start}")
    if decision.edge in ("continue", "transition"):
        if node.state is NodeState.PRUNED:
            reasons.append(
                f"{node.id} was killed, so that its last weights are bad: use edge repair or restart"
            )
        elif not _is_base(board.context, node) and not node.last_step:
            reasons.append(f"{node.id} has no checkpoint: use edge restart")
    if decision.edge == "repair" and not node.findings:
        reasons.append(f"{node.id} has no finding to repair: use edge transition")


def _skills(
    board: Board, decision: Decision, node: Node, reasons: list[str]
) -> tuple[tuple[Finding, ...], Change]:
    library, joined, treated = board.context.library, Change(), []
    recipe = board.context.careful if _is_base(board.context, node) else node.proposal.recipe
    for name in dict.fromkeys(decision.skills):
        if name not in library:
            reasons.append(f"skill {name!r} is not known: known are {', '.join(sorted(library)) or 'none'}")
            continue
        code = library[name].code
        try:
            if not code.applies(recipe, node.findings):
                reasons.append(f"skill {name} does not apply to {node.id}: its findings do not call for it")
                continue
            intervention = code.propose(recipe, node.findings)
        except (AutotrainerError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            reasons.append(f"skill {name} failed on {node.id}: {type(error).__name__}: {error}")
            continue
        clash = joined.knobs.keys() & intervention.knobs.keys()
        if clash:
            reasons.append(f"two skills set {', '.join(sorted(clash))}: take one of them")
        treated += [f for f in node.findings if f.kind in library[name].card.treats]
        joined = replace(
            joined,
            knobs={**joined.knobs, **intervention.knobs},
            hooks=joined.hooks + intervention.hooks,
        )
    return tuple(dict.fromkeys(treated)), joined


def _overrides(
    board: Board, decision: Decision, stage: Stage, node: Node, reasons: list[str]
) -> dict[str, KnobValue]:
    found: dict[str, KnobValue] = {}
    for change in decision.changes:
        if change.knob in found:
            reasons.append(f"{change.knob} is changed twice")
        try:
            found[change.knob] = knob(change.knob).check(_number(change.knob, change.value))
        except ConfigError as error:
            reasons.append(str(error))
    if len(found) > MAX_OVERRIDES:
        reasons.append(
            f"{len(found)} knobs are changed; at most {MAX_OVERRIDES} may be: change those that matter"
        )
    overruled = any(finding.severity is not Severity.INFO for finding in node.findings)
    from_base = decision.edge in ("draft", "restart")
    for name, value in found.items():
        old = stage.knobs.get(name)
        shrinks = isinstance(old, int) and isinstance(value, int) and value < old
        larger = found.get("num_generations", 0)
        trade = (
            name == "prompts_per_step"
            and isinstance(larger, int)
            and larger > int(stage.knobs["num_generations"])
        )
        if KNOBS[name].role is Role.CAPACITY and shrinks and not (overruled or from_base or trade):
            reasons.append(f"{name} is a capacity: along a path it only grows ({old} here, {value} asked)")
    ceiling = lethal_rate(board.context.tree)
    rate = found.get("learning_rate")
    here = float(stage.knobs["learning_rate"])
    if ceiling is not None and isinstance(rate, float) and rate > here and rate >= ceiling:
        reasons.append(f"learning_rate {rate:g}: {ceiling:g} has killed a run of this study")
    return found


def _number(name: str, value: KnobValue) -> KnobValue:
    """A number that was written as text, where the knob is a number."""
    if isinstance(value, str) and name in KNOBS and not KNOBS[name].choices:
        try:
            return float(value)
        except ValueError:
            return value
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and KNOBS.get(name)
        and KNOBS[name].kind is float
    ):
        return float(value)
    return value


def _check_mood(board: Board, decision: Decision, node: Node, reasons: list[str]) -> None:
    if decision.edits and not board.edits_allowed:
        reasons.append("edits are switched off in this study: leave edits empty")
    if board.mood is Mood.ROLL_BACK:
        best = board.context.tree.best()
        wanted = best.id if best is not None else base(board.context.tree).id
        if node.id != wanted:
            reasons.append(f"after repeated failures the study goes back to {wanted}: take it as the parent")
    if board.mood is not Mood.SUBTRACT:
        return
    added = [
        *decision.skills,
        *(hook.ref for hook in decision.hooks if not hook.remove),
        *(reward.ref for reward in decision.rewards if not reward.remove),
        *(edit.path for edit in decision.edits),
        *(["use_suggestion"] if decision.use_suggestion else []),
    ]
    if added:
        reasons.append(f"after repeated failures nothing is added: leave out {', '.join(added)}")
    older = [stage.knobs for n in board.context.tree.lineage(node.id) for stage in n.proposal.recipe.stages]
    older.append(board.context.careful.stages[-1].knobs)
    for change in decision.changes:
        values = [knobs[change.knob] for knobs in older if change.knob in knobs]
        if _number(change.knob, change.value) not in values:
            reasons.append(
                f"after repeated failures knobs only go back: {change.knob} was "
                f"{' or '.join(sorted(set(map(str, values))))}"
            )


def _code(
    board: Board, decision: Decision, stage: Stage, reasons: list[str]
) -> tuple[tuple[HookRef, ...], tuple[RewardRef, ...]]:
    files = _with_edits(board.files, decision.edits)
    hooks, rewards = list(stage.hooks), list(stage.rewards)
    for use in decision.hooks:
        hooks = [hook for hook in hooks if hook.ref != use.ref]
        if not use.remove and _defined(use.ref, files, ast.ClassDef, reasons):
            hooks.append(HookRef(use.point, use.ref, _params(use)))
    for take in decision.rewards:
        rewards = [reward for reward in rewards if reward.ref != take.ref]
        if not take.remove and _defined(take.ref, files, ast.FunctionDef, reasons):
            rewards.append(RewardRef(take.ref, take.weight, _params(take)))
    return tuple(hooks), tuple(rewards)


def _with_edits(files: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """The files as they will be, as far as that is known before the edits are applied in earnest."""
    result = dict(files)
    for edit in edits:
        if edit.content is not None:
            result[edit.path] = edit.content
        elif edit.search and edit.path in result:
            result[edit.path] = result[edit.path].replace(edit.search, edit.replace or "", 1)
    return result


def _defined(ref: str, files: Mapping[str, str], kind: type, reasons: list[str]) -> bool:
    path, _, name = ref.partition(":")
    text = files.get(f"harness/{path}")
    if text is None:
        known = sorted(name for name in files if name.startswith(f"harness/{path.split('/')[0]}/"))
        reasons.append(
            f"{ref}: there is no harness/{path}; there are {', '.join(known) or 'none'}; edits may add it"
        )
        return False
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError) as error:
        reasons.append(f"{path} does not parse: {error}")
        return False
    if any(isinstance(item, kind) and getattr(item, "name", "") == name for item in body):
        return True
    reasons.append(f"{ref}: the file defines no {'class' if kind is ast.ClassDef else 'function'} {name}")
    return False


def _params(use: UseHook | UseReward) -> dict[str, Any]:
    return {param.name: param.value for param in use.params}


def _predictions(
    context: PlanningContext, decision: Decision
) -> tuple[tuple[Prediction, ...], tuple[str, ...]]:
    known = set(EXTRA_METRICS)
    for node in reversed(context.tree.nodes):
        if rows := context.metrics(node.id).rows:
            known |= rows[-1].keys()
            break
    good = [p for p in decision.predictions if p.metric in known]
    return (
        tuple(Prediction(p.metric, p.direction, p.why) for p in good),
        tuple(p.metric for p in decision.predictions if p.metric not in known),
    )


def _propose(context: PlanningContext, node: Node, change: Change, planner: str) -> Proposal:
    if _is_base(context, node):
        return draft(context, context.careful, change, planner)
    return child(context, node, change, planner)


def _with_code(
    context: PlanningContext, proposal: Proposal, hooks: tuple[HookRef, ...], rewards: tuple[RewardRef, ...]
) -> Proposal:
    """The proposal with these hooks and rewards; how it forks follows from them too."""
    old = proposal.recipe.stages[-1]
    if (hooks, rewards) == (old.hooks, old.rewards):
        return proposal
    stage, start = replace(old, hooks=hooks, rewards=rewards), proposal.start
    if start.mode != "base" and start.node is not None:
        before = context.tree.path_stages_until(start.node, start.step)[-1]
        stage = replace(stage, fork=fork_for(before, stage))
    recipe = replace(proposal.recipe, stages=(*proposal.recipe.stages[:-1], stage))
    edge = Edge.TRANSITION if proposal.edge is Edge.CONTINUE else proposal.edge
    return replace(proposal, recipe=recipe, edge=edge)
