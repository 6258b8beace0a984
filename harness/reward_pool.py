"""RewardPool: a user's reward function in processes of its own, with hard time limits."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from harness.contract import ContractError

WORKER = Path(__file__).with_name("reward_worker.py")
START_LIMIT_S = 120.0


class WorkerFailure(RuntimeError):
    """A worker hung, died or answered nonsense; it has been killed."""


class Worker:
    """One process; started when first needed and again after it was killed."""

    def __init__(self, file: Path, function: str, python: str) -> None:
        """Remember what to start."""
        self._argv = [python, str(WORKER), str(file), function]
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self.verl = False

    def start(self) -> None:
        """Start the process where it does not run.

        Raises:
            ContractError: the file or the function cannot be loaded.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self._rest = b""
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            answer = self._line(START_LIMIT_S)
        except WorkerFailure as error:
            raise ContractError(f"reward {self._argv[2]}: loading it failed: {error}") from None
        if "fatal" in answer:
            self.kill()
            raise ContractError(f"reward {self._argv[2]}: {answer['fatal']}")
        self.verl = bool(answer.get("verl"))

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """One request's answer.

        Raises:
            WorkerFailure: it took too long, or the process died.
        """
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self.kill()
            raise WorkerFailure("the process died") from None
        return self._line(limit_s)

    def _line(self, limit_s: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        stream, deadline = self._process.stdout, time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self.kill()
                    raise WorkerFailure(f"it took more than {limit_s:g} s")
                data = os.read(stream.fileno(), 65_536)
                if not data:
                    code = self._process.wait()
                    self.kill()
                    raise WorkerFailure(f"the process died (exit code {code})")
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.kill()
            raise WorkerFailure("the answer is not JSON")
        return answer

    def kill(self) -> None:
        """End the process and its group."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process = None


class RewardPool:
    """Scores batches; whatever the function does, a value or None comes back for each completion in time.

    A function of TRL's form sees a whole batch (it may compare completions); where that fails they are
    tried one by one, and only those at fault are None. One of verl's form sees one completion a call.
    """

    def __init__(
        self,
        file: Path,
        function: str,
        *,
        timeout_s: float = 5.0,
        workers: int = 2,
        python: str | None = None,
    ) -> None:
        """Remember what to run.

        Raises:
            ContractError: the file is missing or a number is not above 0.
        """
        if timeout_s <= 0 or workers < 1:
            raise ContractError(f"timeout_s = {timeout_s} and workers = {workers} must be above 0")
        if not file.is_file():
            raise ContractError(f"there is no reward file {file}")
        self._timeout_s = timeout_s
        self._size = workers
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers = [Worker(file, function, python or sys.executable) for _ in range(workers)]
        for worker in self._workers:
            self._idle.put(worker)
        self.failures: list[str] = []
        """Why completions of the last batch have no value."""

    def score(
        self,
        task: str,
        prompts: Sequence[Any],
        completions: Sequence[str],
        completion_ids: Sequence[Any],
        columns: Mapping[str, Sequence[Any]],
    ) -> list[float | None]:
        """A value for each completion; None where the function failed on it.

        Raises:
            ContractError: the function cannot be loaded.
        """
        self.failures = []

        def request(rows: Sequence[int]) -> dict[str, Any]:
            return {
                "task": task,
                "prompts": [prompts[row] for row in rows],
                "completions": [completions[row] for row in rows],
                "completion_ids": [list(completion_ids[row]) for row in rows],
                "columns": {key: [column[row] for row in rows] for key, column in columns.items()},
            }

        everything = list(range(len(completions)))
        first = self._idle.get()
        try:
            first.start()
            one_by_one = first.verl
        finally:
            self._idle.put(first)
        if not one_by_one and (values := self._ask(request(everything), len(everything))) is not None:
            return values
        self.failures = []
        with ThreadPoolExecutor(self._size) as threads:
            found = list(threads.map(lambda row: self._ask(request([row]), 1), everything))
        return [None if values is None else values[0] for values in found]

    def _ask(self, request: Mapping[str, Any], items: int) -> list[float | None] | None:
        worker = self._idle.get()
        try:
            answer = worker.ask(request, self._timeout_s * max(1, items))
            if "values" not in answer:
                raise WorkerFailure(str(answer.get("error", "no values")))
            values = [None if text == "None" else float(text) for text in answer["values"]]
            if len(values) != items:
                raise WorkerFailure(f"{len(values)} values for {items} completions")
            return values
        except (WorkerFailure, ValueError, TypeError) as error:
            self.failures.append(str(error))
            return None
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.kill()
