"""control.json: what the control plane asks of a running job, answered once each in control-ack.jsonl."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.contract import SCHEMA_VERSION, ContractError, append_jsonl, read_json

KINDS = ("stop", "stop_now", "checkpoint", "set")


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    id: str
    kind: str
    args: dict[str, Any] = field(default_factory=dict)


class Control:
    """Polled at step ends; a poll of an unchanged file costs one stat."""

    def __init__(self, folder: Path, writes: bool = True) -> None:
        """Read and answer in a job's folder; of several processes only the main one writes answers."""
        self._writes = writes
        self._path, self._acks = folder / "control.json", folder / "control-ack.jsonl"
        self._stamp: tuple[int, int] | None = None
        self._seen: set[str] = set()

    def poll(self, step: int) -> list[Request]:
        """The requests that are new, in order. A malformed one is answered with its fault and left out.

        A file that cannot be read is left for the next poll: its writer renames whole files into place.
        """
        try:
            about = self._path.stat()
        except FileNotFoundError:
            return []
        stamp = (about.st_mtime_ns, about.st_ino)
        if stamp == self._stamp:
            return []
        try:
            value = read_json(self._path)
        except (FileNotFoundError, ContractError):
            return []
        self._stamp = stamp
        found = []
        entries = value.get("requests")
        for entry in entries if isinstance(entries, list) else []:
            request = _request(entry)
            if request is None or request.id in self._seen:
                continue
            self._seen.add(request.id)
            if request.kind not in KINDS:
                self.answer(request, step, False, f"kind {request.kind!r} must be one of {', '.join(KINDS)}")
            else:
                found.append(request)
        return found

    def answer(self, request: Request, step: int, ok: bool, message: str) -> None:
        """Write the one answer to a request."""
        if not self._writes:
            return
        append_jsonl(
            self._acks,
            {
                "schema_version": SCHEMA_VERSION,
                "id": request.id,
                "kind": request.kind,
                "step": step,
                "time": time.time(),
                "ok": ok,
                "message": message,
            },
        )


def _request(entry: Any) -> Request | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        return None
    args = entry.get("args", {})
    return Request(entry["id"], str(entry.get("kind")), args if isinstance(args, dict) else {})
