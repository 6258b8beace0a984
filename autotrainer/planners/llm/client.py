"""LlmClient: calls that are cached, charged before they are made, repeated with back-off, and given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from autotrainer.files import write_json
from autotrainer.planners.llm.backend import Backend, CallError, Fault, Reply, Request
from autotrainer.planners.llm.breaker import Breaker
from autotrainer.planners.llm.cache import AnswerCache
from autotrainer.planners.llm.desk import Desk
from autotrainer.planners.llm.prices import Price
from autotrainer.planners.llm.settings import LlmSettings

_REPEATED = (Fault.RATE, Fault.SERVER, Fault.CONNECTION, Fault.TIMEOUT)
_UNCHARGED = (Fault.RATE, Fault.SERVER, Fault.REFUSED)
"""Faults after which a provider has made no tokens; all others are charged at the call's cap."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 20.0
SHARE_OF_TIME_LEFT, SHORTEST_S, LONGEST_S = 0.15, 10.0, 180.0


@dataclass
class LlmClient:
    """The one way to a model.

    Guarantees, whatever the endpoint does: the cost recorded for all calls never exceeds the grant, since a
    call's highest cost is reserved in the journal before it is made and nothing above it is ever charged; a
    call ends within its time limit plus a second; what goes wrong is a CallError.

    Not covered: an endpoint that bills more than the tokens it was allowed. It is found by its own usage
    figures, and not asked again.
    """

    settings: LlmSettings
    backend: Backend
    desk: Desk
    price: Callable[[str], Price]
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        """A closed breaker, an empty count of calls; numbers go on where the journal ends."""
        self.breaker = Breaker(self.settings.max_failures, self.settings.rest_decisions)
        self._cache = AnswerCache(self.desk.cache_dir)
        self._numbers = len(self.desk.events("llm_reserved")) + sum(
            bool(data.get("cached")) for data in self.desk.events("llm_settled")
        )
        self._jitter = Random(0)

    def ask(self, request: Request, role: str, decision: str) -> Reply:
        """The answer to a request, from the cache or the model.

        Raises:
            CallError: there is none: the budget, the breaker, an interruption, or the endpoint's fault.
        """
        cached = self._cache.get(request)
        if cached is not None:
            self._settle(self._number(), request, role, decision, 0.0, cached=True, reply=cached)
            return cached
        if self.breaker.is_open:
            raise CallError(Fault.OPEN, f"the model is left alone for now: {self.breaker.reason}")
        try:
            reply = self._with_repeats(request, role, decision)
        except CallError as error:
            if error.fault not in (Fault.BUDGET, Fault.INTERRUPTED):
                self.breaker.failed(str(error), for_good=False)
            raise
        if not self.breaker.is_open:  # an answer above its cap has opened it
            self.breaker.succeeded()
        self._cache.put(request, reply)
        return reply

    def _with_repeats(self, request: Request, role: str, decision: str) -> Reply:
        timeouts = 0
        for attempt in range(self.settings.max_retries + 1):
            try:
                return self._once(request, role, decision)
            except CallError as error:
                timeouts += error.fault is Fault.TIMEOUT
                last = attempt == self.settings.max_retries
                if error.fault not in _REPEATED or last or timeouts > 1:
                    raise
                self._pause(attempt, error.retry_after_s)
        raise AssertionError("unreachable")

    def _pause(self, attempt: int, retry_after_s: float | None) -> None:
        """Exponential back-off with jitter, or what the server asks for, within limits; ends on a stop."""
        pause = FIRST_PAUSE_S * 2**attempt * (0.75 + 0.5 * self._jitter.random())
        left = min(LONGEST_PAUSE_S, self.timeout_s(), max(pause, retry_after_s or 0.0))
        while left > 0:
            if self.desk.interrupted():
                raise CallError(Fault.INTERRUPTED, "the study is to stop")
            self.sleep(min(0.25, left))
            left -= 0.25

    def timeout_s(self) -> float:
        """Seconds until a call is given up."""
        if self.settings.timeout_s is not None:
            return self.settings.timeout_s
        left = self.desk.seconds_left()
        return LONGEST_S if left is None else min(LONGEST_S, max(SHORTEST_S, SHARE_OF_TIME_LEFT * left))

    def _once(self, request: Request, role: str, decision: str) -> Reply:
        price = self.price(request.model)
        cap = price.at_most(request.size, request.max_tokens)
        left = self.desk.llm_left_usd()
        if cap > left:
            raise CallError(
                Fault.BUDGET, f"a call could cost {cap:.4f} USD and {left:.4f} of the LLM budget are left"
            )
        number = self._number()
        self.desk.record("llm_reserved", call=number, usd=cap)
        began = time.monotonic()
        try:
            reply = self._bounded(request, self.timeout_s())
        except CallError as error:
            usd = 0.0 if error.fault in _UNCHARGED else cap
            took = time.monotonic() - began
            self._settle(number, request, role, decision, usd, error=str(error), seconds=took)
            raise
        claimed, over = self._claimed(reply, request, price, cap)
        took = time.monotonic() - began
        self._settle(number, request, role, decision, claimed, reply=reply, over=over, seconds=took)
        if over:
            self.breaker.failed("the endpoint counts more tokens than it was allowed", for_good=True)
        return reply

    def _claimed(self, reply: Reply, request: Request, price: Price, cap: float) -> tuple[float, bool]:
        """USD of an answer, and whether the endpoint claims more than the cap; without figures, the cap."""
        if reply.prompt_tokens is None or reply.completion_tokens is None:
            return cap, False
        usd = price.cost(reply.prompt_tokens, reply.completion_tokens)
        return min(usd, cap), usd > cap

    def _bounded(self, request: Request, timeout_s: float) -> Reply:
        """One call in a thread that is left behind when time is up: an endpoint that drips cannot hold us."""
        box: list[Reply | BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                box.append(self.backend.complete(request, timeout_s))
            except Exception as error:  # noqa: BLE001 - handed to the caller's thread
                box.append(error)
            finally:
                done.set()

        threading.Thread(target=work, name="llm-call", daemon=True).start()
        deadline = time.monotonic() + timeout_s + 0.5
        while not done.wait(0.1):
            if self.desk.interrupted():
                raise CallError(Fault.INTERRUPTED, "the study is to stop")
            if time.monotonic() >= deadline:
                raise CallError(Fault.TIMEOUT, f"no answer within {timeout_s:.0f} s")
        result = box[0]
        if isinstance(result, CallError):
            raise result
        if isinstance(result, BaseException):
            raise CallError(Fault.MALFORMED, f"{type(result).__name__}: {result}"[:300]) from result
        return result

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _settle(
        self,
        number: int,
        request: Request,
        role: str,
        decision: str,
        usd: float,
        *,
        reply: Reply | None = None,
        error: str = "",
        cached: bool = False,
        over: bool = False,
        seconds: float = 0.0,
    ) -> None:
        """Write request and answer where a person can read them, then what it cost into the journal."""
        transcript = self.desk.transcripts / f"{number:05d}.json"
        row: dict[str, Any] = {
            "schema_version": 1,
            "call": number,
            "role": role,
            "decision": decision,
            "request": request.to_json(),
            "answer": reply.text if reply else None,
            "finish_reason": reply.finish_reason if reply else None,
            "error": error,
        }
        try:
            transcript.parent.mkdir(parents=True, exist_ok=True)
            write_json(transcript, row)
        except OSError as trouble:
            error = error or f"transcript not written: {trouble.strerror}"
        self.desk.record(
            "llm_settled",
            call=number,
            usd=usd,
            model=request.model,
            role=role,
            decision=decision,
            cached=cached,
            prompt_tokens=reply.prompt_tokens if reply else None,
            completion_tokens=reply.completion_tokens if reply else None,
            price_known=self.price(request.model).known,
            over_cap=over,
            seconds=round(seconds, 3),
            error=error,
            request=request.key,
            transcript=transcript.name,
        )
