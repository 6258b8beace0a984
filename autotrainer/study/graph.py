"""The loop as a LangGraph graph over plain functions, one invocation a tick.

State is the study's id and the journal's position. A checkpoint is written before each node
(`durability="sync"`), so a tick that was cut short goes on where it was, provided that the journal stands
where the checkpoint says; where the two disagree the journal wins and the tick starts anew, which is safe
because every step is idempotent. The thread is dropped after each tick.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from autotrainer.study.runtime import Runtime

Step = Callable[[Runtime], None]


class TickState(TypedDict):
    """What LangGraph carries: everything else is in the journal."""

    study: str
    position: int


class Loop:
    """Runs ticks; a context manager that owns the checkpoint database."""

    def __init__(self, runtime: Runtime, steps: Mapping[str, Step]) -> None:
        """Wire the steps in their order."""
        self._runtime = runtime
        self._connection = sqlite3.connect(runtime.paths.graph_checkpoints, check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        builder = StateGraph(TickState)
        previous = START
        for name, step in steps.items():
            builder.add_node(name, self._node(step))
            builder.add_edge(previous, name)
            previous = name
        builder.add_edge(previous, END)
        self._graph = builder.compile(checkpointer=self._saver)
        self._first = True

    def __enter__(self) -> Self:
        """The loop itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the checkpoint database."""
        self._connection.close()

    def tick(self) -> None:
        """One pass over all steps."""
        study = self._runtime.config.id
        config: Any = {"configurable": {"thread_id": study}}
        state: TickState | None = {"study": study, "position": len(self._runtime.journal)}
        if self._first and self._can_go_on(config):
            state = None
        self._first = False
        self._graph.invoke(state, config, durability="sync")
        self._saver.delete_thread(study)

    def _can_go_on(self, config: Any) -> bool:
        snapshot = self._graph.get_state(config)
        if not snapshot.next:
            return False
        if snapshot.values.get("position") == len(self._runtime.journal):
            return True
        self._saver.delete_thread(self._runtime.config.id)
        return False

    def _node(self, step: Step) -> Any:
        def run(state: TickState) -> dict[str, int]:
            step(self._runtime)
            return {"position": len(self._runtime.journal)}

        return run
