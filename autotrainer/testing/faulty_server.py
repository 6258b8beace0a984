"""FaultyServer: an OpenAI-compatible endpoint on loopback that misbehaves on request; a public fake."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

FAULTS = (
    "ok",
    "slow",
    "never",
    "drip",
    "rate_limit",
    "server_error",
    "unauthorised",
    "closes",
    "not_json",
    "no_choices",
    "null_content",
    "refusal",
    "fenced",
    "truncated",
    "wrong_schema",
    "huge",
    "wrong_usage",
    "no_usage",
    "negative_usage",
    "no_schema_support",
    "html",
)


class FaultyServer:
    """Serves `/v1/chat/completions`; `fault` may be changed between calls, `good` is a good answer.

    A context manager. `calls` counts requests; `bodies` has them.
    """

    def __init__(self, good: str | Mapping[str, Any], fault: str = "ok", *, stall_s: float = 30.0) -> None:
        """A server that is not started yet."""
        if fault not in FAULTS:
            raise ValueError(f"fault is {fault!r}: it must be one of {', '.join(FAULTS)}")
        self.good = good if isinstance(good, str) else json.dumps(dict(good))
        self.fault, self.stall_s = fault, stall_s
        self.bodies: list[dict[str, Any]] = []
        self._stopped = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def calls(self) -> int:
        """Number of requests so far."""
        return len(self.bodies)

    @property
    def url(self) -> str:
        """The base URL for `--llm-base-url`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        """Start."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop; calls that hang are let go."""
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                """Misbehave."""
                length = int(self.headers.get("content-length", 0))
                server.bodies.append(json.loads(self.rfile.read(length)))
                try:
                    server._answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    return

        return Handler

    def _answer(self, call: BaseHTTPRequestHandler) -> None:
        act: Callable[[BaseHTTPRequestHandler], None] | None = {
            "never": lambda call: self._hang(),
            "slow": self._slow,
            "drip": self._drip,
            "closes": lambda call: call.connection.close(),
            "rate_limit": lambda call: _send(
                call, 429, {"error": {"message": "slow down"}}, {"Retry-After": "1"}
            ),
            "server_error": lambda call: _send(call, 503, {"error": {"message": "overloaded"}}),
            "unauthorised": lambda call: _send(
                call, 401, {"error": {"message": "wrong key sk-abcdefghijkl"}}
            ),
            "not_json": lambda call: _send_text(call, 200, "this is no JSON", "application/json"),
            "html": lambda call: _send_text(call, 200, "<html>Bad gateway</html>", "text/html"),
            "no_choices": lambda call: _send(
                call, 200, {"id": "x", "object": "chat.completion", "choices": []}
            ),
        }.get(self.fault)
        if act is not None:
            act(call)
        elif self.fault == "no_schema_support" and "response_format" in self.bodies[-1]:
            _send(call, 400, {"error": {"message": "response_format is not supported"}})
        else:
            _send(call, 200, self._completion())

    def _completion(self) -> dict[str, Any]:
        content: str | None = {
            "refusal": "I'm sorry, but I can't help with that.",
            "fenced": f"<think>let me see {{ }}</think>Here it is:\n```json\n{self.good}\n```\nGood luck!",
            "truncated": self.good[: len(self.good) // 2],
            "wrong_schema": json.dumps({"action": "train harder", "lr": "high"}),
            "huge": "A" * 2_000_000,
        }.get(self.fault, self.good)
        if self.fault == "null_content":
            content = None
        usage: dict[str, Any] | None = {
            "wrong_usage": {"prompt_tokens": 10**9, "completion_tokens": 10**9, "total_tokens": 2 * 10**9},
            "negative_usage": {"prompt_tokens": -5, "completion_tokens": -5, "total_tokens": -10},
        }.get(self.fault, {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150})
        body: dict[str, Any] = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "faulty",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
            ],
        }
        return body if self.fault == "no_usage" else {**body, "usage": usage}

    def _hang(self) -> None:
        self._stopped.wait(self.stall_s)

    def _slow(self, call: BaseHTTPRequestHandler) -> None:
        self._stopped.wait(min(self.stall_s, 0.4))
        _send(call, 200, self._completion())

    def _drip(self, call: BaseHTTPRequestHandler) -> None:
        """One byte at a time: no single read times out."""
        call.send_response(200)
        call.send_header("content-type", "application/json")
        call.end_headers()
        until = time.monotonic() + self.stall_s
        while time.monotonic() < until and not self._stopped.is_set():
            call.wfile.write(b" ")
            call.wfile.flush()
            self._stopped.wait(0.1)


def _send(
    call: BaseHTTPRequestHandler,
    status: int,
    body: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> None:
    _send_text(call, status, json.dumps(body), "application/json", headers)


def _send_text(
    call: BaseHTTPRequestHandler,
    status: int,
    text: str,
    kind: str,
    headers: Mapping[str, str] | None = None,
) -> None:
    data = text.encode()
    call.send_response(status)
    call.send_header("content-type", kind)
    call.send_header("content-length", str(len(data)))
    for name, value in (headers or {}).items():
        call.send_header(name, value)
    call.end_headers()
    call.wfile.write(data)
