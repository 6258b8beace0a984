"""AnswerCache: answers on disk by the hash of the full request, so that a replayed study makes no calls."""

from __future__ import annotations

from pathlib import Path

from autotrainer.errors import ContractError
from autotrainer.files import read_json, write_json
from autotrainer.planners.llm.backend import Reply, Request


class AnswerCache:
    """One file an answer, written aside and renamed; what cannot be read counts as absent."""

    def __init__(self, folder: Path) -> None:
        """The cache in a folder; made with the first answer."""
        self._folder = folder

    def get(self, request: Request) -> Reply | None:
        """The answer that was given to an equal request."""
        try:
            row = read_json(self._path(request))
            reply = row["reply"]
            return Reply(str(reply["text"]), finish_reason=str(reply["finish_reason"]))
        except (OSError, ContractError, KeyError, TypeError, ValueError):
            return None

    def put(self, request: Request, reply: Reply) -> None:
        """Keep an answer. A disk that takes none only means that the call may be made again."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_json(
                self._path(request),
                {
                    "schema_version": 1,
                    "request": request.to_json(),
                    "reply": {"text": reply.text, "finish_reason": reply.finish_reason},
                },
            )
        except OSError:
            return

    def _path(self, request: Request) -> Path:
        return self._folder / f"{request.key}.json"
