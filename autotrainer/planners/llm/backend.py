"""Backend: one call of a language model. What can go wrong is a typed CallError, never anything else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from autotrainer.errors import PlannerError
from autotrainer.files import dumps


@dataclass(frozen=True, slots=True)
class Request:
    """One request, in full: equal requests have equal keys, and their answer is never asked for twice."""

    model: str
    messages: tuple[tuple[str, str], ...]
    """(role, text)."""
    max_tokens: int
    base_url: str | None = None
    temperature: float | None = None
    schema: str = ""
    """The JSON schema that the answer is asked to follow; empty: free text."""
    attempt: int = 0
    """Distinguishes a question that is asked again on purpose."""

    @property
    def key(self) -> str:
        """SHA-256 of everything that the answer may depend on."""
        return hashlib.sha256(dumps(self.to_json()).encode()).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of the messages and the schema: at least as many as they have tokens."""
        return sum(len(text.encode()) for _, text in self.messages) + len(self.schema.encode())

    def to_json(self) -> dict[str, Any]:
        """The request as plain JSON values."""
        return {
            "model": self.model,
            "messages": [{"role": role, "content": text} for role, text in self.messages],
            "max_tokens": self.max_tokens,
            "base_url": self.base_url,
            "temperature": self.temperature,
            "schema": self.schema,
            "attempt": self.attempt,
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; token counts are None where the endpoint gave none that make sense."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str = "stop"
    extra: dict[str, Any] = field(default_factory=dict)


class Fault(StrEnum):
    """Why a call gave no answer."""

    RATE = "rate limit"
    SERVER = "server error"
    CONNECTION = "no connection"
    TIMEOUT = "time-out"
    REFUSED = "request refused"
    """4xx: the key, the model's name or the request is wrong; to repeat it is of no use."""
    MALFORMED = "malformed answer"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    OPEN = "left alone"
    """The circuit breaker is open."""


class CallError(PlannerError):
    """A call gave no answer."""

    def __init__(self, fault: Fault, message: str, *, retry_after_s: float | None = None) -> None:
        """The fault and a line for a person."""
        super().__init__(f"{fault}: {message}" if message else str(fault))
        self.fault, self.retry_after_s = fault, retry_after_s


class Backend(Protocol):
    """A way to a model. Called from one thread at a time; may block up to about `timeout_s`."""

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """The answer.

        Raises:
            CallError: there is none.
        """
