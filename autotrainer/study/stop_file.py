"""StopFile: stop.json, by which a person, or the disk watch, asks a study's control plane to stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from autotrainer.errors import ContractError
from autotrainer.files import read_json, write_json


class StopFile:
    """What was asked of a study: to pause, or to judge what it has and end. Absent: nothing."""

    def __init__(self, root: Path) -> None:
        """The request in a study's folder."""
        self._path = root / "stop.json"

    @property
    def pause(self) -> bool:
        """Whether the study is to pause."""
        return self._path.exists() and not self._read().get("finish")

    @property
    def finish(self) -> bool:
        """Whether it is to judge what it has and end."""
        return self._path.exists() and bool(self._read().get("finish"))

    @property
    def reason(self) -> str:
        """Why; empty where nothing was asked."""
        return str(self._read().get("reason", ""))

    def ask(self, reason: str, *, finish: bool = False) -> None:
        """Write the request; a later one replaces an earlier one."""
        value = {"schema_version": 1, "reason": reason, "finish": finish, "time": time.time()}
        write_json(self._path, value)

    def clear(self) -> None:
        """Forget the request."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        """The file; a person may have written anything there, which asks for a pause."""
        try:
            return dict(read_json(self._path))
        except (FileNotFoundError, ContractError):
            return {}
