"""The application: routes, live events, and who may see them."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotrainer.errors import AutotrainerError
from autotrainer.files import dumps
from autotrainer.study.view import StudyView
from autotrainer.ui.report import render_report
from autotrainer.ui.tree_picture import tree_picture
from autotrainer.ui.web import payloads, rollouts

STATIC = Path(__file__).parent / "static"
COOKIE = "autotrainer_token"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_POLL_S = 0.5
_ALIVE_S = 15.0
_PAGE_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REPORT_CSP = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


class StudyReader:
    """The study as it is now; read anew only where its journal has grown. Safe in several threads."""

    def __init__(self, root: Path) -> None:
        """Read the study in a folder.

        Raises:
            ConfigError: there is no study.
        """
        self._root, self._lock = root, Lock()
        self._stamp, self._view = self._journal(), StudyView.read(root)

    def view(self) -> StudyView:
        """The newest view."""
        with self._lock:
            stamp = self._journal()
            if stamp != self._stamp:
                self._view, self._stamp = StudyView.read(self._root), stamp
            return self._view

    def stamp(self) -> str:
        """Changes when there is something new to see: an event, or a step of a running node."""
        view = self.view()
        logs = [view.paths.job(node.job_id) / "metrics.jsonl" for node in view.tree.active if node.attempt]
        return ":".join(str(size) for size in (self._journal()[0], *(_size(path) for path in logs)))

    def _journal(self) -> tuple[int, int]:
        status = (self._root / "journal.jsonl").stat()
        return status.st_size, status.st_mtime_ns


def build_app(root: Path, *, token: str | None = None, hosts: tuple[str, ...] = LOOPBACK) -> Starlette:
    """The application for a study's folder.

    Args:
        root: the study's folder; only read.
        token: what a browser has to show once, as `?token=`; None asks for none.
        hosts: names under which the page may be asked for, against DNS rebinding; `*` allows any.

    Raises:
        ConfigError: there is no study.
    """
    reader = StudyReader(root)

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    def payload(make: Callable[[StudyView, Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                value = await run_in_threadpool(lambda: make(reader.view(), request))
            except (KeyError, AutotrainerError) as error:
                return PlainTextResponse(f"not found: {error}", status_code=404)
            return Response(dumps(value), media_type="application/json")

        return endpoint

    async def report(request: Request) -> Response:
        view = reader.view()
        html = await run_in_threadpool(lambda: render_report(view, tree_picture(view)))
        return HTMLResponse(html, headers={"content-security-policy": _REPORT_CSP})

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(reader, request), media_type="text/event-stream")

    routes = [
        Route("/", page),
        Route("/report", report),
        Route("/api/study", payload(lambda view, request: payloads.study_payload(view))),
        Route(
            "/api/nodes/{node}",
            payload(lambda view, request: payloads.node_payload(view, _node(view, request))),
        ),
        Route("/api/nodes/{node}/rollouts/{step:int}", payload(_rollouts)),
        Route(
            "/api/compare/{node}/{other}",
            payload(
                lambda view, request: payloads.compare_payload(
                    view, _node(view, request), _node(view, request, "other")
                )
            ),
        ),
        Route("/api/events", events),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token, hosts=hosts)])


def _node(view: StudyView, request: Request, name: str = "node") -> str:
    node = str(request.path_params[name])
    if node not in view.tree:
        raise KeyError(node)
    return node


def _rollouts(view: StudyView, request: Request) -> list[dict[str, Any]]:
    node = view.tree[_node(view, request)]
    return rollouts.rollout_groups(view.paths.job(node.job_id) / "rollouts", int(request.path_params["step"]))


async def _events(reader: StudyReader, request: Request) -> AsyncIterator[str]:
    """`changed` when there is something new; a comment now and then, so that proxies keep the line open."""
    seen, silent = "", 0.0
    while not await request.is_disconnected():
        stamp = await run_in_threadpool(reader.stamp)
        if stamp != seen:
            seen, silent = stamp, 0.0
            yield f"event: changed\ndata: {stamp}\n\n"
        elif silent >= _ALIVE_S:
            silent = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(_POLL_S)
        silent += _POLL_S


class Guard:
    """Read-only, for known host names, with the token where there is one; sets every answer's headers."""

    def __init__(self, app: ASGIApp, token: str | None, hosts: tuple[str, ...]) -> None:
        """Stand before an application."""
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self._headers(message, request)]
            await send(message)

        await (self._refusal(request) or self._app)(scope, receive, sent)

    def _refusal(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("this page only reads", status_code=405, headers={"allow": "GET, HEAD"})
        if "*" not in self._hosts and (request.url.hostname or "").strip("[]") not in self._hosts:
            return PlainTextResponse("unknown host name", status_code=421)
        if self._token is not None and not (self._shown(request) or self._remembered(request)):
            return PlainTextResponse(
                "open the address that `autotrainer ui` printed: it has the token", status_code=401
            )
        return None

    def _shown(self, request: Request) -> bool:
        return hmac.compare_digest(
            request.query_params.get("token", "").encode(), (self._token or "").encode()
        )

    def _remembered(self, request: Request) -> bool:
        return hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), (self._token or "").encode())

    def _headers(self, message: Message, request: Request) -> list[tuple[bytes, bytes]]:
        headers = {
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }
        if not any(name == b"content-security-policy" for name, _ in message.get("headers", [])):
            headers["content-security-policy"] = _PAGE_CSP
        if self._token is not None and self._shown(request):
            headers["set-cookie"] = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
        return [(name.encode(), value.encode()) for name, value in headers.items()]


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
