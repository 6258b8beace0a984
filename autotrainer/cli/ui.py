"""`autotrainer ui`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autotrainer.cli.locate import find_study
from autotrainer.cli.options import DEFAULT_RUNS, RunsOption, StudyArgument
from autotrainer.errors import ConfigError

if TYPE_CHECKING:
    import socket

PORT = 8420


def ui(
    study: StudyArgument = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Other than the loopback asks for a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = PORT,
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Show a study as a page in the browser, live while it runs.

    The page only reads. It listens on this machine alone; with --host it asks for the token in the
    address that is printed.
    """
    root = find_study(study, runs)
    import secrets

    import uvicorn

    from autotrainer.ui.web.app import LOOPBACK, build_app

    loopback = _is_loopback(host)
    token = None if loopback else secrets.token_urlsafe(24)
    app = build_app(root, token=token, hosts=(*LOOPBACK, host) if loopback else ("*",))
    listener = _listen(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")
    typer.echo(f"{root.name}: {address}  (Ctrl-C ends it)")
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    import socket

    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; give another --port or --host"
        ) from None
