"""Round: one decision from digest to vetted proposal; the functions that graph.py puts in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autotrainer.errors import WorkspaceError
from autotrainer.files import dumps
from autotrainer.planners.base import PlanningContext
from autotrainer.planners.llm.backend import Request
from autotrainer.planners.llm.client import LlmClient
from autotrainer.planners.llm.compile import (
    MAX_OVERRIDES,
    Board,
    Compiled,
    applicable,
    compile_decision,
    with_edge,
)
from autotrainer.planners.llm.decision import Decision, DecisionError, read, schema
from autotrainer.planners.llm.desk import Desk, Edited, VetResult
from autotrainer.planners.llm.settings import LlmSettings
from autotrainer.recipe.knobs import KNOBS
from autotrainer.search.frontier import base
from autotrainer.tree.proposal import Proposal

MAX_REPAIRS = 2
"""Times that a decision which breaks rules is sent back."""
MAX_EDIT_REPAIRS = 1
"""Times that edits which vetting rejects are sent back; then they are dropped."""
COMPACT_BELOW = 600
"""Tokens of an answer below which it is asked for in the compact form."""
_PROMPTS = Path(__file__).parent / "prompts"


@dataclass
class Round:
    """What is known while one decision is taken; lives in memory only, the cache makes it repeatable."""

    id: str
    context: PlanningContext
    board: Board
    settings: LlmSettings
    client: LlmClient
    desk: Desk
    planner: str
    write_digest: Callable[[], str]
    loop: Callable[[Decision], str | None]
    """Why a decision continues a doom loop, or None."""
    digest: str = ""
    messages: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    decision: Decision | None = None
    compiled: Compiled | None = None
    edited: Edited = field(default_factory=Edited)
    vetted: VetResult | None = None
    repairs: int = 0
    edit_repairs: int = 0
    rejections: list[str] = field(default_factory=list)
    """Everything that was sent back, in order."""
    dropped_edits: str = ""
    """Why the edits were dropped; empty where they were not."""
    forced: str = ""
    """Why another policy has to decide."""

    @property
    def proposal(self) -> Proposal:
        """The proposal as it stands, its patch included."""
        assert self.compiled is not None
        return replace(self.compiled.proposal, patch=self.edited.patch or None)


def digest(work: Round) -> None:
    """Write the digest and the messages."""
    work.digest = work.write_digest()
    system = _prompt("system").replace("{max_overrides}", str(MAX_OVERRIDES))
    if work.board.edits_allowed:
        system += "\n" + _prompt("code")
    work.messages = [("system", system), ("user", work.digest + "\nDecide the next node: one JSON object.")]


def propose(work: Round) -> None:
    """Ask the proposer, or, once something was sent back, the coder.

    Raises:
        CallError: there is no answer.
    """
    again = bool(work.rejections)
    model = (work.settings.coder if again else None) or work.settings.model
    assert model is not None
    compact = work.settings.decision_tokens < COMPACT_BELOW
    request = Request(
        model=model,
        messages=tuple(work.messages),
        max_tokens=work.settings.decision_tokens,
        base_url=work.settings.base_url,
        temperature=work.settings.temperature,
        schema=dumps(
            schema(
                compact=compact,
                knobs=[name for name, knob in KNOBS.items() if not (compact and knob.choices)],
                skills=applicable(work.board),
            )
        ),
    )
    work.text = work.client.ask(request, "coder" if again else "proposer", work.id).text


def check(work: Round) -> str:
    """Read, compile and apply: 'ok', 'repair', 'stop', 'forced', or 'give_up' after too many repairs."""
    try:
        work.decision = with_edge(work.board, read(work.text))
        if work.decision.verdict == "stop":
            return "stop"
        forced = work.loop(work.decision)
        if forced is not None:
            work.forced = forced
            return "forced"
        work.compiled = compile_decision(_board(work, work.decision), work.decision, work.planner)
    except DecisionError as error:
        return _send_back(work, str(error))
    work.edited = Edited()
    if work.decision.edits:
        try:
            work.edited = work.desk.apply(work.compiled.proposal, _edits(work.decision))
        except WorkspaceError as error:
            return _reject_edits(work, VetResult(False, "paths and size", str(error)))
    return "ok"


def vet(work: Round) -> str:
    """Vet what was edited: 'ok', 'repair' once, else the edits are dropped and recorded."""
    if not work.edited.patch and not work.edited.diagnostics:
        return "ok"
    work.vetted = work.desk.vet(work.proposal, work.edited)
    return "ok" if work.vetted.ok else _reject_edits(work, work.vetted)


def _board(work: Round, decision: Decision) -> Board:
    """The board with the files of the node that the decision grows from."""
    board, tree = work.board, work.context.tree
    name = base(tree).id if decision.edge == "draft" else decision.parent or board.selected
    if name == board.selected or name not in tree:
        return board
    return replace(board, files=work.desk.harness_files(name))


def _send_back(work: Round, reasons: str) -> str:
    if work.repairs >= MAX_REPAIRS:
        work.rejections.append(reasons)
        return "give_up"
    work.repairs += 1
    _answer_with(work, reasons)
    return "repair"


def _reject_edits(work: Round, result: VetResult) -> str:
    reason = f"the edits were refused ({result.gate}): {result.reason}"
    work.vetted = result
    if work.edit_repairs < MAX_EDIT_REPAIRS:
        work.edit_repairs += 1
        _answer_with(work, reason)
        return "repair"
    work.rejections.append(reason)
    return _drop_edits(work, reason)


def _drop_edits(work: Round, reason: str) -> str:
    """What is left of a decision without its edits; 'give_up' where that is nothing new."""
    assert work.decision is not None
    work.dropped_edits, work.edited = reason, Edited()
    board = _board(work, work.decision)
    files = board.files
    bare = work.decision.model_copy(
        update={
            "edits": (),
            "hooks": tuple(use for use in work.decision.hooks if use.remove or _known(use.ref, files)),
            "rewards": tuple(use for use in work.decision.rewards if use.remove or _known(use.ref, files)),
        }
    )
    try:
        work.compiled = compile_decision(board, bare, work.planner)
    except DecisionError as error:
        work.rejections.append(f"without its edits: {error}")
        return "give_up"
    return "ok"


def _known(ref: str, files: Mapping[str, str]) -> bool:
    return f"harness/{ref.partition(':')[0]}" in files


def _answer_with(work: Round, reasons: str) -> None:
    work.rejections.append(reasons)
    work.messages += [
        ("assistant", work.text[:20_000]),
        ("user", _prompt("repair").replace("{reasons}", reasons[:4000])),
    ]


def _edits(decision: Decision) -> Sequence[Mapping[str, Any]]:
    return [edit.model_dump() for edit in decision.edits]


def _prompt(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8")
