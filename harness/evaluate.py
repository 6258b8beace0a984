"""The resident evaluator: `python -m harness.evaluate serve.json`; frozen, run from the pristine harness.

It answers requests from a folder in the order of their arrival, one at a time, and never dies of a bad one:
that is answered with an error. An answer that is there is never computed again.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness.contract import SCHEMA_VERSION, ContractError, read_json, write_json
from harness.evaluator import EvalRequest, Evaluator, refusal, typed
from harness.heartbeat import Heartbeat

POLL_S = 0.05
LOCK_POLL_S = 1.0
"""Looking at the control plane's lock takes it for a moment, so that is done rarely and only when idle."""


class Terminated(BaseException):
    """The supervisor has asked the process to end; no boundary of a request may swallow it."""


@dataclass(frozen=True, slots=True)
class ServeSpec:
    """serve.json, checked."""

    job_id: str
    study_dir: str
    requests_dir: str
    evals_dir: str
    vault_dir: str
    task: str
    control_lock: str
    idle_exit_s: float
    device: str
    threads: int
    output: str

    @classmethod
    def read(cls, path: Path) -> ServeSpec:
        """The spec in a file.

        Raises:
            ContractError: a key is missing or unknown, or a value is not allowed; the message names it.
        """
        spec = typed(cls, read_json(path))
        if spec.device not in ("cpu", "cuda"):
            raise ContractError(f"device = {spec.device!r} must be cpu or cuda")
        if spec.threads < 1 or spec.idle_exit_s < 0:
            raise ContractError(
                f"threads = {spec.threads} must be at least 1 and idle_exit_s = {spec.idle_exit_s} at least 0"
            )
        return spec


@dataclass(slots=True)
class Served:
    """What a server has done so far."""

    requests: int = 0
    tokens: int = 0
    device_seconds: float = 0.0


class Server:
    """Serves one study's requests, one after the other."""

    def __init__(self, spec: ServeSpec, heart: Heartbeat) -> None:
        """Load the verifier.

        Raises:
            ValueError: there is no such task.
        """
        self._spec, self._heart, self.served = spec, heart, Served()
        self._evals = Path(spec.evals_dir).resolve()
        self._evaluator = Evaluator(spec.task, Path(spec.study_dir), Path(spec.vault_dir), spec.device)

    def run(self) -> str:
        """Serve until asked to stop or left alone for the idle time; returns the reason.

        Raises:
            OSError: answers cannot be written.
        """
        self._heart.enter("idle")
        alone_since, looked = time.monotonic(), float("-inf")
        while not _asked_to_stop(Path(self._spec.output)):
            if waiting := _waiting(Path(self._spec.requests_dir)):
                self.serve(waiting[0])
                alone_since = time.monotonic()
                continue
            now = time.monotonic()
            if now - looked >= min(LOCK_POLL_S, self._spec.idle_exit_s):
                looked = now
                if not _is_free(Path(self._spec.control_lock)):
                    alone_since = now
                elif now - alone_since >= self._spec.idle_exit_s:
                    return f"no control plane and no request for {self._spec.idle_exit_s:g} s"
            time.sleep(POLL_S)
        return "asked to stop"

    def serve(self, path: Path) -> None:
        """Answer one request and remove it; an answer that is there is kept."""
        header = _named(path)
        place = self._evals
        if "node" in header:
            place = place / header["node"] / f"{header['step']}-{header['split']}.json"
        try:
            request = EvalRequest.of(read_json(path))
            header = request.header()
            place = self._allowed(request.output)
            if not place.exists():
                answer = self._evaluator.answer(request, self._heart.enter)
                self._write(place, answer)
                self.served.tokens += answer["tokens"]
                self.served.device_seconds += answer["device_seconds"]
        except Exception as error:  # noqa: BLE001 - the boundary of a request: whatever it is becomes the answer
            if not path.exists():
                return
            traceback.print_exc()
            self._refuse(place, header, error)
        finally:
            self._heart.enter("idle")
        path.unlink(missing_ok=True)
        self.served.requests += 1
        self._heart.step = self.served.requests

    def _refuse(self, place: Path, header: dict[str, Any], error: Exception) -> None:
        """Answer with the error where the request says or, where that is not allowed, where its name says."""
        try:
            allowed = self._allowed(str(place))
        except ContractError:
            sys.stderr.write(f"request {header['id']} says nowhere where its answer may go: dropped\n")
            return
        if not allowed.exists():
            self._write(allowed, refusal(header, f"{type(error).__name__}: {error}"))

    def _allowed(self, output: str) -> Path:
        place = Path(output).resolve()
        if place.suffix != ".json" or self._evals not in place.parents:
            raise ContractError(f"output {output} must be a .json file in {self._evals}")
        return place

    @staticmethod
    def _write(place: Path, answer: dict[str, Any]) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_json(place, answer)


def _named(path: Path) -> dict[str, Any]:
    """What the name of a request says about it, for an answer to a file that says nothing."""
    found = re.fullmatch(r"(?P<node>.+)-(?P<step>[0-9]+)-(?P<split>[a-z]+)", path.stem)
    if found is None:
        return {"id": path.stem}
    return {"id": path.stem, "node": found["node"], "step": int(found["step"]), "split": found["split"]}


def _waiting(folder: Path) -> list[Path]:
    """The requests in the order of their arrival."""
    found = []
    for path in folder.glob("*.json"):
        try:
            found.append((path.stat().st_mtime_ns, path.name, path))
        except FileNotFoundError:
            continue
    return [path for _, name, path in sorted(found) if not name.startswith(".")]


def _is_free(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _asked_to_stop(output: Path) -> bool:
    try:
        requests = read_json(output / "control.json").get("requests")
    except (FileNotFoundError, ContractError):
        return False
    return isinstance(requests, list) and any(
        isinstance(request, dict) and request.get("kind") in ("stop", "stop_now") for request in requests
    )


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated


def _result(
    job_id: str, started: float, served: Served, reason: str, error: BaseException | None
) -> dict[str, Any]:
    """result.json: stopped; failed where serve.json is at fault, crashed where the machine is."""
    status, failure = "stopped", None
    if error is not None:
        status = "failed" if isinstance(error, ValueError) else "crashed"
        last = traceback.extract_tb(error.__traceback__)[-1]
        name = type(error).__name__
        failure = {"type": name, "message": str(error), "file": last.filename, "line": last.lineno}
    return {
        "schema_version": SCHEMA_VERSION,
        "job_id": job_id,
        "status": status,
        "reason": reason,
        "failure": failure,
        "steps": served.requests,
        "tokens": served.tokens,
        "device_seconds": served.device_seconds,
        "started": started,
        "ended": time.time(),
        "checkpoints": [],
        "frozen_before": {},
        "frozen_after": {},
        "start": None,
        "stop": None,
        "written_by": "run",
    }


def main(arguments: list[str]) -> int:
    """Serve from serve.json; leaves result.json in its output (or beside it) and returns the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m harness.evaluate serve.json\n")
        return 2
    path, started, served = Path(arguments[0]).resolve(), time.time(), Served()
    output, job_id, reason = path.parent, f"evaluator.{path.parent.name}", ""
    failure: BaseException | None = None
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        spec = ServeSpec.read(path)
        output, job_id = Path(spec.output), spec.job_id
        output.mkdir(parents=True, exist_ok=True)
        with Heartbeat(output, job_id) as heart:
            import torch
            import transformers

            torch.set_num_threads(spec.threads)
            quiet: Any = transformers.utils.logging
            quiet.disable_progress_bar()
            server = Server(spec, heart)
            served = server.served
            reason = server.run()
    except Terminated:
        reason = "terminated"
    except Exception as error:  # noqa: BLE001 - the boundary of the process: whatever it is becomes result.json
        traceback.print_exc()
        failure, reason = error, str(error) or type(error).__name__
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    result = _result(job_id, started, served, reason, failure)
    write_json(output / "result.json", result)
    signal.signal(signal.SIGTERM, before)
    return {"stopped": 0, "failed": 1}.get(result["status"], 3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
