"""The planner's graph: digest, propose, check, repair (at most twice), vet, approve; the order, no more."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from autotrainer.planners.llm import round as steps
from autotrainer.planners.llm.round import Round

os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LANGCHAIN_TRACING_V2"] = "false"

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict, total=False):
    """`verdict` is what the last step said; everything else is in the round."""

    verdict: str


class DecisionGraph:
    """One round through the graph; stops at the approval until `resume` brings what a person said."""

    def __init__(self, work: Round, *, approval: bool) -> None:
        """The graph of one decision; with `approval` it ends in an interrupt."""
        self._config: Any = {"configurable": {"thread_id": work.id}, "recursion_limit": 50}
        graph = StateGraph(State)
        graph.add_node("digest", lambda state: _silent(steps.digest, work))
        graph.add_node("propose", lambda state: _silent(steps.propose, work))
        graph.add_node("check", lambda state: {"verdict": steps.check(work)})
        graph.add_node("vet", lambda state: {"verdict": steps.vet(work)})
        graph.add_node("approve", lambda state: {"verdict": _approve(work) if approval else "ok"})
        graph.add_edge(START, "digest")
        graph.add_edge("digest", "propose")
        graph.add_edge("propose", "check")
        graph.add_conditional_edges("check", _next("vet"), {"vet": "vet", "propose": "propose", END: END})
        graph.add_conditional_edges(
            "vet", _next("approve"), {"approve": "approve", "propose": "propose", END: END}
        )
        graph.add_edge("approve", END)
        self._graph = graph.compile(checkpointer=InMemorySaver())

    def run(self) -> str:
        """From the start to a verdict: ok, stop, forced, give_up, or 'waiting' for a person.

        Raises:
            CallError: the model gave no answer.
        """
        return self._verdict(self._graph.invoke(State(), self._config))

    def resume(self, agreed: bool, words: str) -> str:
        """Go on with what a person said: 'ok' or 'refused'."""
        said: Command[Any] = Command(resume=[agreed, words])
        return self._verdict(self._graph.invoke(said, self._config))

    def _verdict(self, state: Mapping[str, Any]) -> str:
        return "waiting" if "__interrupt__" in state else str(state.get("verdict", "give_up"))


def _silent(step: Callable[[Round], None], work: Round) -> State:
    step(work)
    return {}


def _next(then: str) -> Callable[[State], str]:
    def route(state: State) -> str:
        verdict = state.get("verdict")
        return then if verdict == "ok" else "propose" if verdict == "repair" else END

    return route


def _approve(work: Round) -> str:
    agreed, words = interrupt({"decision": work.id})
    if not agreed:
        work.rejections.append(f"a person refused: {words}")
    return "ok" if agreed else "refused"
