"""The broker: runs programs for jobs that are isolated themselves, over a Unix socket outside of them.

`python -m sandboxes.broker SOCKET` serves until standard input closes. bubblewrap does not work inside of
bubblewrap, so a job sends the program here. One JSON line each way; a request cannot choose backend, limits
above the broker's, or a command other than this interpreter.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any

from sandboxes.backends import backend
from sandboxes.program import Limits, Outcome, Program, SandboxError

SOCKET_VARIABLE = "AUTOTRAINER_SANDBOX_SOCKET"
BACKEND_VARIABLE = "AUTOTRAINER_SANDBOX"
MAX_REQUEST = 4 * 2**20
CEILING = Limits(wall_s=30.0, cpu_s=30, memory_mib=2048, processes=64, file_mib=64, output_bytes=2**20)
AT_ONCE = 4


def run(program: Program, limits: Limits) -> Outcome:
    """Run a Python program through the broker where there is one, else in the best backend here.

    Raises:
        SandboxError: neither works.
    """
    place = os.environ.get(SOCKET_VARIABLE)
    if place:
        return ask(place, program, limits)
    return backend(os.environ.get(BACKEND_VARIABLE, "auto")).run(program, limits)


def ask(place: str, program: Program, limits: Limits) -> Outcome:
    """Have a broker run a program.

    Raises:
        SandboxError: it does not answer, or refuses.
    """
    request = {
        "arguments": list(program.argv[1:]),
        "stdin": base64.b64encode(program.stdin).decode(),
        "files": {name: base64.b64encode(data).decode() for name, data in program.files.items()},
        "limits": {name: getattr(limits, name) for name in Limits.__slots__},
    }
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(limits.wall_s + 60.0)
            link.connect(place)
            link.sendall(json.dumps(request).encode() + b"\n")
            with link.makefile("rb") as stream:
                answer = json.loads(stream.readline())
    except (OSError, ValueError) as error:
        raise SandboxError(f"the broker at {place} does not answer: {error}") from error
    if "error" in answer:
        raise SandboxError(str(answer["error"]))
    return Outcome.from_json(answer)


def answer_to(line: bytes, name: str) -> dict[str, Any]:
    """The answer to one request line; a refusal has the key `error`."""
    try:
        request = json.loads(line)
        program = Program(
            argv=(sys.executable, *map(str, request["arguments"])),
            stdin=base64.b64decode(request["stdin"]),
            files={str(key): base64.b64decode(data) for key, data in request["files"].items()},
        )
        asked = request["limits"]
        limits = Limits(**{key: min(asked[key], getattr(CEILING, key)) for key in Limits.__slots__})
        return backend(name).run(program, limits).to_json()
    except SandboxError as error:
        return {"error": str(error)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"error": f"the request is wrong: {type(error).__name__}: {error}"}


class Broker(socketserver.ThreadingUnixStreamServer):
    """Serves programs at a path; at most four at once."""

    daemon_threads = True

    def __init__(self, place: Path, name: str = "auto") -> None:
        """Listen at `place`, which only this user may open."""
        self.gate, self.sandbox = threading.Semaphore(AT_ONCE), name
        place.unlink(missing_ok=True)
        super().__init__(str(place), _Handler)
        place.chmod(0o600)


class _Handler(socketserver.StreamRequestHandler):
    server: Broker

    def handle(self) -> None:
        line = self.rfile.readline(MAX_REQUEST + 1)
        if len(line) > MAX_REQUEST:
            answer: dict[str, Any] = {"error": f"the request is longer than {MAX_REQUEST} bytes"}
        else:
            with self.server.gate:
                answer = answer_to(line, self.server.sandbox)
        try:
            self.wfile.write(json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:
            return


def main(arguments: list[str]) -> int:
    """Serve until standard input closes: the broker ends with whoever started it."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m sandboxes.broker SOCKET\n")
        return 2
    with Broker(Path(arguments[0]), os.environ.get(BACKEND_VARIABLE, "auto")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.buffer.read()
        server.shutdown()
    Path(arguments[0]).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
