"""ScriptedModel: a language model by hand, the public fake behind every test of the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from autotrainer.files import dumps
from autotrainer.planners.llm.backend import CallError, Reply, Request

Answer: TypeAlias = (
    str | Mapping[str, Any] | CallError | Reply | Callable[[Request], "str | Mapping[str, Any]"]
)


class ScriptedModel:
    """Answers from a list, one a call; a mapping is sent as JSON, a CallError is raised.

    The last answer is repeated. `requests` holds what was asked. Without answers every call fails the test.
    """

    def __init__(self, *answers: Answer) -> None:
        """The answers in the order of the calls."""
        self._answers = list(answers)
        self.requests: list[Request] = []

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """The next answer."""
        place = min(len(self.requests), len(self._answers) - 1)
        self.requests.append(request)
        answer = self._answers[place]
        if callable(answer) and not isinstance(answer, CallError):
            answer = answer(request)
        if isinstance(answer, CallError):
            raise answer
        if isinstance(answer, Reply):
            return answer
        text = answer if isinstance(answer, str) else dumps(dict(answer))
        return Reply(text, len(request.messages[-1][1]) // 4, len(text) // 4)

    @property
    def digests(self) -> list[str]:
        """The first user message of every request."""
        return [next(text for role, text in request.messages if role == "user") for request in self.requests]


def go_on(**parts: Any) -> dict[str, Any]:
    """A decision with these parts."""
    return {"verdict": "go_on", "hypothesis": "by the script", **parts}


def change(**knobs: Any) -> list[dict[str, Any]]:
    """Changes of knobs."""
    return [{"knob": name, "value": value, "why": "by the script"} for name, value in knobs.items()]
