"""Steering: what a person says to a running study (hints, approvals), handed over through one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from autotrainer.errors import ConfigError
from autotrainer.files import SCHEMA_VERSION, dumps, read_jsonl
from autotrainer.study.runtime import Runtime
from autotrainer.study.view import StudyView

FILE = "steering.jsonl"
MAX_TEXT = 4000


def steer(root: Path, text: str) -> None:
    """Leave a hint for the language-model planner of a study; it is in every digest from the next tick on.

    Raises:
        ConfigError: the text is empty or too long, or nobody would read it.
    """
    text = " ".join(text.split())
    if not text or len(text) > MAX_TEXT:
        raise ConfigError(f"a hint has 1 to {MAX_TEXT} characters; this one has {len(text)}")
    _of_a_model(root)
    _append(root, {"kind": "steered", "text": text})


def approve(root: Path, decision: str | None, *, agreed: bool, text: str = "") -> str:
    """Say yes or no to a decision that waits, by default to the one that does; its id is returned.

    Raises:
        ConfigError: no decision waits, or another one does.
    """
    view = _of_a_model(root)
    waits = waiting(view)
    if waits is None:
        raise ConfigError(f"study {view.config.id} has no decision that waits for a person")
    if decision is not None and decision != waits:
        raise ConfigError(f"decision {decision!r} does not wait: {waits} does")
    _append(root, {"kind": "approval", "decision": waits, "agreed": agreed, "text": " ".join(text.split())})
    return waits


def waiting(view: StudyView) -> str | None:
    """The decision that waits for a person, or None."""
    decision = view.last("llm_decision")
    if decision is None or decision.data["outcome"] != "waiting":
        return None
    name = str(decision.data["decision"])
    answered = any(
        event.kind == "approval" and event.data["decision"] == name and event.seq > decision.seq
        for event in view.events
    )
    return None if answered or view.state == "finished" else name


def take_steering(runtime: Runtime) -> None:
    """Write what people have said since the last tick into the journal; a wrong line is passed over once."""
    path = runtime.paths.root / FILE
    if not path.is_file():
        return
    taken = sum(event.kind in ("steered", "approval") for event in runtime.journal)
    taken += sum(event.kind == "note" and "steering" in event.data["data"] for event in runtime.journal)
    for row in read_jsonl(path)[taken:]:
        kind = row.get("kind")
        if kind == "steered" and isinstance(row.get("text"), str):
            runtime.record("steered", text=row["text"][:MAX_TEXT])
        elif kind == "approval" and isinstance(row.get("agreed"), bool):
            runtime.record(
                "approval",
                decision=str(row.get("decision")),
                agreed=row["agreed"],
                text=str(row.get("text", ""))[:MAX_TEXT],
            )
        else:
            runtime.record(
                "note", text=f"{FILE}: a line is of no known kind", data={"steering": str(kind)[:40]}
            )


def _of_a_model(root: Path) -> StudyView:
    view = StudyView.read(root)
    if view.config.llm.model is None:
        raise ConfigError(f"study {view.config.id} has no language model: only that reads what a person says")
    if view.state == "finished":
        raise ConfigError(f"study {view.config.id} is finished: there is nothing to steer")
    return view


def _append(root: Path, row: dict[str, Any]) -> None:
    """Add one line, whole, also beside another process that adds one."""
    line = dumps({"schema_version": SCHEMA_VERSION, **row}) + "\n"
    descriptor = os.open(root / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode("utf-8"))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
