"""LlmPlanner: a language model decides, rules check, and the rules planner stands in where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any, ClassVar

from autotrainer.errors import PlannerError, PlannerWaitingError
from autotrainer.planners.base import PlanningContext
from autotrainer.planners.llm.backend import Backend, CallError, Fault
from autotrainer.planners.llm.calibration import calibration
from autotrainer.planners.llm.client import LlmClient
from autotrainer.planners.llm.compile import Board
from autotrainer.planners.llm.decision import Decision
from autotrainer.planners.llm.desk import Desk
from autotrainer.planners.llm.digest import DigestInputs, build_digest
from autotrainer.planners.llm.litellm_backend import LitellmBackend, context_of, price_of
from autotrainer.planners.llm.loops import Mood, fingerprint, loop, mood
from autotrainer.planners.llm.prices import Price
from autotrainer.planners.llm.round import Round
from autotrainer.planners.llm.settings import LlmSettings
from autotrainer.planners.rules import RulesPlanner
from autotrainer.recipe.knobs import KnobValue
from autotrainer.search.frontier import base
from autotrainer.tree.proposal import Proposal, Purpose

_SMALLEST_DIGEST, _LARGEST_DIGEST = 3_000, 12_000
STOP_AFTER_SHARE = 0.5
"""Share of the search's nodes after which the model may end it; an earlier stop is only recorded."""


class LlmPlanner:
    """The language-model planner.

    Whatever the model, its endpoint or its answers do, `propose` returns a proposal of the model or of the
    rules planner, or raises what any planner may raise; every decision is an `llm_decision` event with its
    outcome: accepted, edits_dropped, fallback, forced, stop, stop_refused, refused or waiting.
    """

    name: ClassVar[str] = "llm"
    policy: ClassVar[str] = "puct"

    def __init__(self) -> None:
        """A planner without a study; `bind` gives it one."""
        self._desk: Desk | None = None
        self._settings = LlmSettings()
        self._backend: Backend | None = None
        self._client: LlmClient | None = None
        self._price: Callable[[str], Price] | None = None
        self._waiting: tuple[Any, Round, str] | None = None
        self._refused: tuple[Any, PlannerError] | None = None

    def bind(
        self,
        desk: Desk,
        settings: LlmSettings,
        *,
        backend: Backend | None = None,
        price: Callable[[str], Price] | None = None,
    ) -> None:
        """Work for a study; without a backend through litellm."""
        self._desk, self._settings, self._backend, self._price = desk, settings, backend, price
        self._client = None

    def propose(self, context: PlanningContext, parent: str) -> Proposal:
        """The next node from `parent`, or from another that the model prefers.

        Raises:
            PlannerWaitingError: a person has to agree first; ask again later.
            PlannerError: the model ends the search, or nobody has anything new to offer.
        """
        if self._desk is None or self._settings.model is None:
            raise PlannerError("the planner llm has no language model: give --llm MODEL")
        if self._waiting is not None:
            return self._resumed(context)
        state = (len(context.tree), parent, tuple(node.state for node in context.tree.nodes))
        if self._refused is not None and self._refused[0] == state:
            raise self._refused[1]
        try:
            return self._decide(context, parent)
        except PlannerWaitingError:
            raise
        except PlannerError as error:
            self._refused = (state, error)
            raise

    def _decide(self, context: PlanningContext, parent: str) -> Proposal:
        from autotrainer.planners.llm.graph import DecisionGraph

        client = self._ready()
        work = self._round(context, parent, client)
        if client.breaker.is_open:
            reason = f"the model is left alone: {client.breaker.reason}"
            client.breaker.decision_passed()
            return self._fall_back(context, parent, work, reason)
        graph = DecisionGraph(work, approval=self._settings.approve != "none")
        try:
            verdict = self._run(graph, work)
        except CallError as error:
            if error.fault is Fault.INTERRUPTED:
                raise PlannerWaitingError(str(error)) from error
            return self._fall_back(context, parent, work, str(error))
        return self._concluded(context, parent, work, graph, verdict)

    def _run(self, graph: Any, work: Round) -> str:
        verdict = str(graph.run())
        needs_person = self._settings.approve == "all" or work.edited.patch or work.edited.diagnostics
        if verdict == "waiting" and not needs_person:
            return str(graph.resume(True, "no edits"))
        return verdict

    def _concluded(
        self, context: PlanningContext, parent: str, work: Round, graph: Any, verdict: str
    ) -> Proposal:
        if verdict == "waiting":
            self._waiting = (graph, work, parent)
            self._record(context, work, "waiting", f"--approve {self._settings.approve}")
            return self._resumed(context)
        if verdict == "ok":
            self._desk_().keep(work.proposal, work.edited)
            outcome = "edits_dropped" if work.dropped_edits else "accepted"
            self._record(context, work, outcome, work.dropped_edits)
            return work.proposal
        if verdict == "stop":
            return self._stopped(context, parent, work)
        if verdict == "forced":
            return self._fall_back(context, parent, work, work.forced, outcome="forced")
        if verdict == "refused":
            return self._fall_back(context, parent, work, work.rejections[-1], outcome="refused")
        last = work.rejections[-1] if work.rejections else "no decision"
        return self._fall_back(context, parent, work, f"no usable decision: {last}")

    def _resumed(self, context: PlanningContext) -> Proposal:
        """The decision that waits, once a person has said something to it."""
        assert self._waiting is not None
        graph, work, parent = self._waiting
        said = self._desk_().approval(work.id)
        if said is None:
            raise PlannerWaitingError(f"decision {work.id} waits for a person: autotrainer approve")
        self._waiting = None
        verdict = str(graph.resume(*said))
        if parent not in context.tree:
            raise PlannerError(f"the parent {parent} of decision {work.id} is gone")
        return self._concluded(context, parent, work, graph, verdict)

    def _stopped(self, context: PlanningContext, parent: str, work: Round) -> Proposal:
        assert work.decision is not None
        done = len(context.tree.with_purpose(Purpose.SEARCH))
        left = self._desk_().facts().nodes_left
        if done >= STOP_AFTER_SHARE * max(1, done + left):
            self._record(context, work, "stop", work.decision.hypothesis)
            raise PlannerError(f"the language model ends the search: {work.decision.hypothesis}")
        reason = f"the model would stop after {done} of {done + left} nodes, and half of them come first"
        return self._fall_back(context, parent, work, reason, outcome="stop_refused")

    def _fall_back(
        self, context: PlanningContext, parent: str, work: Round, reason: str, *, outcome: str = "fallback"
    ) -> Proposal:
        """The rules planner's proposal, from the node to go back to after too many failures."""
        origin = work.board.selected if work.board.mood is Mood.ROLL_BACK else parent
        self._record(context, work, outcome, reason)
        return RulesPlanner().propose(context, origin)

    def _ready(self) -> LlmClient:
        if self._client is None:
            settings = self._settings
            price = self._price or cache(lambda model: price_of(model, settings))
            backend = self._backend or LitellmBackend(settings)
            self._client = LlmClient(settings, backend, self._desk_(), price)
        return self._client

    def _desk_(self) -> Desk:
        assert self._desk is not None
        return self._desk

    def _round(self, context: PlanningContext, parent: str, client: LlmClient) -> Round:
        desk, settings = self._desk_(), self._settings
        temper = mood(context.tree, self.name)
        best = context.tree.best()
        selected = (best.id if best else base(context.tree).id) if temper is Mood.ROLL_BACK else parent
        suggestion, state = _suggestion(context, selected)
        files = desk.harness_files(selected)
        board = Board(context, selected, suggestion, files, temper, settings.edits)

        def write() -> str:
            return build_digest(
                DigestInputs(
                    context=context,
                    facts=desk.facts(),
                    selected=selected,
                    suggestion=suggestion,
                    suggestion_state=state,
                    hints=desk.hints(),
                    rollouts=desk.rollouts(selected),
                    tried=_tried(context, desk),
                    files=files,
                    calibration=calibration(context.tree, context.metrics, self.name).text,
                    mood=temper,
                    mood_target=selected,
                ),
                self._digest_tokens(),
            )

        return Round(
            id=f"d{len(context.tree):03d}",
            context=context,
            board=board,
            settings=settings,
            client=client,
            desk=desk,
            planner=self.name,
            write_digest=write,
            loop=lambda decision: loop(
                self._done(), fingerprint(decision, _knobs(context, decision, selected))
            ),
        )

    def _digest_tokens(self) -> int:
        if self._settings.digest_tokens is not None:
            return self._settings.digest_tokens
        known = context_of(self._settings.model or "") if self._backend is None else None
        return min(_LARGEST_DIGEST, max(_SMALLEST_DIGEST, (known or 0) // 4))

    def _done(self) -> list[str]:
        """The fingerprints of the decisions that became nodes, or would have without a loop."""
        events = self._desk_().events("llm_decision")
        rows: dict[str, str] = {}
        for data in events:
            if data["outcome"] in ("accepted", "edits_dropped"):
                rows[str(data["decision"])] = str(data["fingerprint"])
            elif data["outcome"] == "forced":
                rows.clear()  # the loop is broken: the count begins again
        return list(rows.values())

    def _record(self, context: PlanningContext, work: Round, outcome: str, reason: str) -> None:
        decision = work.decision
        used = outcome in ("accepted", "edits_dropped", "waiting")
        knobs = _knobs(context, decision, work.board.selected) if decision else {}
        self._desk_().record(
            "llm_decision",
            decision=work.id,
            node=f"n{len(context.tree):03d}",
            selected=work.board.selected,
            outcome=outcome,
            reason=" ".join(reason.split())[:600],
            model=self._settings.model,
            answer=decision.model_dump(mode="json") if decision else None,
            fingerprint=fingerprint(decision, knobs) if decision else "",
            mood=str(work.board.mood),
            repairs=work.repairs + work.edit_repairs,
            rejections=[words[:600] for words in work.rejections],
            overrides=work.compiled.overrides if work.compiled and used else 0,
            dropped_predictions=list(work.compiled.dropped) if work.compiled else [],
            gates=list(work.vetted.gates) if work.vetted and used else [],
            patch=work.edited.patch if used else "",
            diagnostics_diff=work.edited.diagnostics_diff if used else "",
            digest_bytes=len(work.digest.encode()),
        )


def _knobs(context: PlanningContext, decision: Decision, selected: str) -> Mapping[str, Any]:
    name = decision.parent if decision.parent in context.tree else selected
    stage = context.tree[name].proposal.recipe.stages[-1]
    return stage.knobs


def _suggestion(context: PlanningContext, parent: str) -> tuple[Mapping[str, KnobValue], str]:
    """What the numeric sampler would set, without using up the context's random numbers."""
    from autotrainer.planners.tpe import STARTUP, TpePlanner

    own = replace(context, rng=Random(f"suggestion:{len(context.tree)}:{context.careful.seed}"))
    try:
        proposal = TpePlanner().propose(own, parent)
    except PlannerError:
        return {}, ""
    old = context.careful if parent == base(context.tree).id else context.tree[parent].proposal.recipe
    before, after = old.stages[-1].knobs, proposal.recipe.stages[-1].knobs
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    nodes = len(context.tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL))
    how = "at random, too few nodes to model" if nodes < STARTUP else "by its model"
    return changed, f"TPE, told {nodes} nodes, {how}"


def _tried(context: PlanningContext, desk: Desk) -> list[str]:
    """One line a decision: what it wanted, and what came of it."""
    lines = []
    for data in desk.events("llm_decision"):
        node = str(data["node"])
        answer = data.get("answer") or {}
        hypothesis = " ".join(str(answer.get("hypothesis", "")).split())[:160]
        what = hypothesis or "no decision"
        line = f"{data['decision']} {data['outcome']}: {what}"
        if data["outcome"] in ("accepted", "edits_dropped") and node in context.tree:
            line += f" -> {node} {_came_of(context, node)}"
        if data["reason"]:
            line += f" ({str(data['reason'])[:160]})"
        lines.append(line)
    return lines


def _came_of(context: PlanningContext, name: str) -> str:
    node = context.tree[name]
    after = node.score("dev")
    before = context.tree[node.parent].score("dev") if node.parent else None
    gain = f", {100 * (after - before):+.1f} points" if after is not None and before is not None else ""
    why = f" ({(node.kill_reason or node.reason)[:100]})" if node.state.is_terminal and after is None else ""
    return f"{node.state}{gain}{why}"
