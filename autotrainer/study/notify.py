"""Notifications: a webhook or a command is told of promotion, stop and trouble; it can never stop a study."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

from autotrainer.errors import ContractError
from autotrainer.files import read_json, write_json
from autotrainer.study.runtime import Runtime
from autotrainer.tree.event import Event

LIMIT_S = 15.0


def notify(runtime: Runtime) -> None:
    """Send what happened since the last message; each event is sent once, also across restarts."""
    settings = runtime.config.notify
    if settings.command is None and settings.webhook is None:
        return
    place = runtime.paths.root / "notified.json"
    sent = _sent(runtime)
    events = list(runtime.journal)[sent:]
    if not events:
        return
    write_json(place, {"schema_version": 1, "events": len(runtime.journal)})
    for event in events:
        text = message(event)
        if text is not None:
            trouble = _send(runtime, {"study": runtime.config.id, "kind": event.kind, "text": text})
            if trouble is not None:
                runtime.record("note", text=f"a notification failed: {trouble}", data={})


def message(event: Event) -> str | None:
    """What a person is told about an event; None for most."""
    data: Mapping[str, Any] = event.data
    if event.kind == "node_verdict" and data["verdict"] == "promoted":
        return f"{data['node']} is promoted: {data['reason']}"
    if event.kind == "study_paused":
        return f"paused: {data['reason']}"
    if event.kind == "study_finished":
        reasons = data["summary"].get("reasons") or [data["reason"]]
        return f"finished: {reasons[0]}"
    if event.kind == "node_state" and data["state"] == "crashed":
        return f"{data['node']} crashed for good: {data['reason']}"
    if event.kind == "node_validity" and data["validity"] == "invalid":
        return f"{data['node']} is invalid: {data['reason']}"
    if event.kind == "note" and "trouble" in data["data"]:
        return str(data["text"])
    return None


def _sent(runtime: Runtime) -> int:
    try:
        return int(read_json(runtime.paths.root / "notified.json")["events"])
    except (FileNotFoundError, ContractError, KeyError, ValueError, TypeError):
        return 0


def _send(runtime: Runtime, body: dict[str, str]) -> str | None:
    """What went wrong, or None. Whoever is told must not be able to harm the study: short, and no retry."""
    settings = runtime.config.notify
    text = {**body, "text": f"autotrainer {body['study']}: {body['text']}"}
    try:
        if settings.command is not None:
            subprocess.run(
                shlex.split(settings.command),
                input=json.dumps(text).encode(),
                timeout=LIMIT_S,
                check=True,
                capture_output=True,
            )
        if settings.webhook is not None:
            import requests

            requests.post(settings.webhook, json=text, timeout=LIMIT_S).raise_for_status()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    return None
