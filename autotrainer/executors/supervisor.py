"""The supervisor of one job: `python supervisor.py FOLDER`, detached; it outlives the control plane.

It holds the folder's lock (inherited by the job, so that it is held while either lives), starts the job
in a process group of its own, ends it at its wall limit, when it hangs or when asked, writes down when it
ended, and leaves a result.json where the job could not. With `--foreground` before FOLDER it does not
detach.

Standard library only and run by path, so that it starts in a few hundredths of a second. What the job
writes is not trusted: files are read up to a size, never through a link, and never waited for.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

POLL_S = 0.2
SANDBOX_SOCKET = "AUTOTRAINER_SANDBOX_SOCKET"
"""A job with this variable gets a broker that runs programs for it (sandboxes/broker.py)."""
LOCK_LIMIT_S = 5.0
ISOLATION_LIMIT_S = 60.0
END_LIMIT_S = 10.0
TAIL_BYTES = 4000
JSON_BYTES = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write aside, fsync, rename. Never through a link; a folder of that name is moved out of the way."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.{os.urandom(8).hex()}"))
    aside = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(aside, flags, 0o644), "w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=1, sort_keys=True, allow_nan=False)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def read_end(path: Path, size: int) -> bytes:
    """The last `size` bytes of a regular file; empty where it is missing or something else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(descriptor, size, max(0, status.st_size - size))
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None where it is missing, half there, too long or no object."""
    try:
        value = json.loads(read_end(path, JSON_BYTES))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def process_facts(pid: int) -> tuple[str, int, float] | None:
    """A process's state, its parent and when it was created, in ticks since boot; None where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return (fields[0], int(fields[1]), float(fields[19])) if len(fields) > 19 else None


def creation_time(pid: int) -> float | None:
    """When a process was created, in clock ticks since boot; with it a pid means one process for good.

    None where it is gone, or has ended and waits to be reaped.
    """
    facts = process_facts(pid)
    return None if facts is None or facts[0] in ("Z", "X") else facts[2]


def descendants(ancestor: int) -> list[int]:
    """The processes below one, nearest first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (facts := process_facts(int(name))) is not None:
            children.setdefault(facts[1], []).append(int(name))
    found = [ancestor]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


class Watch:
    """Says why a job has to end.

    Times are this process's own, so that neither a clock that is set nor the job can shift them.
    """

    def __init__(self, folder: Path, launch: dict[str, Any]) -> None:
        """Start the clock of a job's limits."""
        self._folder, self._launch = folder, launch
        self._started = time.monotonic()
        self._beat: tuple[object, float] | None = None
        self._phase: tuple[object, float] | None = None

    def reason(self) -> str | None:
        """`cancelled`, `wall` or `hung`; None while all is well. Nothing hangs before its first heartbeat."""
        if (self._folder / "cancel.json").exists():
            return "cancelled"
        now = time.monotonic()
        if now - self._started > self._launch["wall_s"]:
            return "wall"
        beat = read_json(self._folder / "heartbeat.json")
        if beat is not None:
            if self._beat is None or self._beat[0] != beat.get("time"):
                self._beat = (beat.get("time"), now)
            phase = (beat.get("phase"), beat.get("phase_started"))
            if self._phase is None or self._phase[0] != phase:
                self._phase = (phase, now)
        if self._beat is not None and now - self._beat[1] > self._launch["heartbeat_stale_s"]:
            return "hung"
        return "hung" if self._phase is not None and self._over_limit(*self._phase, now) else None

    def _over_limit(self, phase: Any, since: float, now: float) -> bool:
        limit = self._launch.get("phase_s", {}).get(phase[0]) if isinstance(phase[0], str) else None
        return limit is not None and now - since > limit


class Supervisor:
    """Runs one job from launch.json to supervisor.json and result.json."""

    def __init__(self, folder: Path, lock: int) -> None:
        """Take over a folder whose lock is held through the descriptor `lock`."""
        self.folder, self.lock = folder, lock
        self.launch: dict[str, Any] = json.loads((folder / "launch.json").read_text(encoding="utf-8"))
        self.started = time.time()
        self.process: subprocess.Popen[bytes] | None = None
        self.broker: subprocess.Popen[bytes] | None = None
        self.job_create_time: float | None = None
        self.exit_code: int | None = None
        self.grade = "C"
        self.killed: str | None = None
        self.kill_at: float | None = None
        self.asked_to_end = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        # Orphans of the job become our children, so that what left its group or session ends with it.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked_to_end = True

    def run(self) -> None:
        """Start the job and stay until it and all its processes have ended."""
        self._record(None)
        trouble = self._start()
        try:
            if trouble is None:
                self._record(None)
                self._stay()
        finally:
            self._end_all()
            if self.broker is not None:
                shutil.rmtree(self._broker_folder, ignore_errors=True)
        ended = time.time()
        if read_json(self.folder / "result.json") is None:
            write_json(self.folder / "result.json", self._crashed(trouble, ended))
        self._record(ended)

    def _start(self) -> str | None:
        """Start the job; what kept it from starting, or None."""
        try:
            argv = self._isolated()
            with (self.folder / "job.log").open("ab") as log:
                self.process = subprocess.Popen(
                    argv,
                    cwd=self.launch["cwd"],
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(self.lock,),
                )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return f"did not start: {error}"
        facts = process_facts(self.process.pid)  # it is there, if only to be reaped by us
        self.job_create_time = None if facts is None else facts[2]
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        return None

    def _environment(self) -> dict[str, str]:
        """The job's environment; where it asks for a sandbox, with a broker outside of its isolation."""
        env: dict[str, str] = dict(self.launch["env"])
        if SANDBOX_SOCKET in env:
            place = self._broker_folder = tempfile.mkdtemp(prefix="autotrainer-broker-")
            env[SANDBOX_SOCKET] = f"{place}/socket"
            self.broker = subprocess.Popen(
                [sys.executable, "-s", "-m", "sandboxes.broker", env[SANDBOX_SOCKET]],
                env={**os.environ, "PYTHONPATH": str(_shipped_root())},
                cwd="/",
                stdin=subprocess.PIPE,  # it ends when this closes: with us
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        return env

    def _isolated(self) -> list[str]:
        """The job's argv in the best isolation there is; one that hides nothing is trusted and runs as it is.

        Raises:
            ValueError: the isolation gave no answer; then the job must not run at all.
        """
        argv: list[str] = self.launch["argv"]
        if not self.launch.get("hide"):
            return argv
        writable = [str(self.folder), *self.launch.get("writable", [])]
        request = {"argv": argv, "hide": self.launch["hide"], "writable": writable}
        done = subprocess.run(
            [sys.executable, "-s", "-m", "sandboxes.isolation", "wrap"],
            env={**os.environ, "PYTHONPATH": str(_shipped_root())},
            cwd="/",
            input=json.dumps({**request, "network": bool(self.launch.get("network"))}).encode(),
            capture_output=True,
            timeout=ISOLATION_LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise ValueError(f"its isolation failed: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}")
        answer = json.loads(done.stdout)
        self.grade = answer["grade"]
        if answer["reason"]:
            sys.stderr.write(f"isolation grade {self.grade}: {answer['reason']}\n")
        return list(answer["argv"])

    def _stay(self) -> None:
        watch = Watch(self.folder, self.launch)
        while not self._reap():
            if self.kill_at is None:
                self.killed = "cancelled" if self.asked_to_end else watch.reason()
                if self.killed is not None:
                    self.kill_at = time.monotonic() + self.launch.get("grace_s", 20.0)
                    self._terminate()
            elif time.monotonic() >= self.kill_at:
                return
            signal.sigtimedwait({signal.SIGCHLD}, POLL_S)

    def _reap(self) -> bool:
        """Take in ended children, orphans too; true once the job itself is among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return self.exit_code is not None
            if self.process is not None and pid == self.process.pid:
                self.exit_code = self.process.returncode = os.waitstatus_to_exitcode(status)

    def _terminate(self) -> None:
        """Ask every process of the job to end, but for the program around it, which tells the exit code."""
        around = self.process.pid if self.process is not None and self.grade == "A" else None
        for pid in descendants(os.getpid()):
            if pid != around:
                _send(pid, signal.SIGTERM)

    def _end_all(self) -> None:
        """Kill what is left of the job; processes in uninterruptible sleep are given up after a while."""
        deadline = time.monotonic() + END_LIMIT_S
        while (left := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in left:
                _send(pid, signal.SIGKILL)
            self._reap()
            time.sleep(0.01)

    def _crashed(self, trouble: str | None, ended: float) -> dict[str, Any]:
        lines = read_end(self.folder / "job.log", TAIL_BYTES).decode("utf-8", "replace").strip().splitlines()
        output = f"; last output: {lines[-1][-500:]}" if lines else "; it wrote no output"
        devices = max(1, len(self.launch.get("devices", [])))
        return {
            "schema_version": 1,
            "job_id": self.launch["job_id"],
            "status": "crashed",
            "reason": trouble or f"{self._how()} without a result{output}",
            "failure": None,
            "steps": self._steps(),
            "tokens": 0,
            "device_seconds": max(0.0, ended - self.started) * devices,
            "started": self.started,
            "ended": ended,
            "checkpoints": self._checkpoints(),
            "frozen_before": {},
            "frozen_after": {},
            "start": None,
            "stop": None,
            "written_by": "supervisor",
        }

    def _how(self) -> str:
        code = self.exit_code
        if code is not None and code > 128 and self.grade == "A":
            code = 128 - code  # how the program around the job tells of a signal
        how = "killed"
        if code is not None:
            how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        words = {"wall": f"over its wall limit of {self.launch['wall_s']:g} s", "hung": "hung"}
        return how if self.killed is None else f"{how} ({words.get(self.killed, self._cancel_reason())})"

    def _cancel_reason(self) -> str:
        asked = read_json(self.folder / "cancel.json") or {}
        return f"cancelled: {asked['reason']}" if asked.get("reason") else "cancelled"

    def _steps(self) -> int:
        for line in reversed(read_end(self.folder / "metrics.jsonl", JSON_BYTES).split(b"\n")[:-1]):
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and isinstance(row.get("step"), int):
                    return int(row["step"])
        return 0

    def _checkpoints(self) -> list[dict[str, Any]]:
        found = [(int(path.parent.name), read_json(path)) for path in _checkpoint_files(self.folder)]
        return [
            {"step": step, "kind": about["kind"]}
            for step, about in sorted(found, key=lambda item: item[0])
            if about is not None and about.get("kind") in ("full", "weights")
        ]

    def _record(self, ended: float | None) -> None:
        write_json(
            self.folder / "supervisor.json",
            {
                "schema_version": 1,
                "job_id": self.launch["job_id"],
                "pid": os.getpid(),
                "create_time": creation_time(os.getpid()) or 0.0,
                "job_pid": None if self.process is None else self.process.pid,
                "job_create_time": self.job_create_time,
                "started": self.started,
                "ended": ended,
                "exit_code": self.exit_code,
                "killed": self.killed,
                "isolation": self.grade,
            },
        )


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _checkpoint_files(folder: Path) -> Iterator[Path]:
    for path in (folder / "checkpoints").glob("*/checkpoint.json"):
        if path.parent.name.isascii() and path.parent.name.isdigit():
            yield path


def _shipped_root() -> Path:
    """Where the shipped sandboxes are: an earlier job may have changed those of its workspace."""
    package = Path(__file__).resolve().parents[1]
    bundle = package / "_bundle"
    return bundle if (bundle / "sandboxes").is_dir() else package.parent


def take_lock(folder: Path) -> int | None:
    """The folder's lock; None where the job has or had another supervisor.

    Whoever looks at a job's state holds the lock, shared, for an instant: therefore several tries.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(folder / "lock", flags, 0o644)
    deadline = time.monotonic() + LOCK_LIMIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if (folder / "supervisor.json").exists() or time.monotonic() > deadline:
                os.close(lock)
                return None
            time.sleep(0.01)
        else:
            break
    if (folder / "supervisor.json").exists():
        os.close(lock)
        return None
    return lock


def main(arguments: list[str]) -> int:
    """Supervise the job in a folder; 0 also where another supervisor has it or had it, 2 for wrong usage."""
    foreground = arguments[:1] == ["--foreground"]
    rest = arguments[int(foreground) :]
    if len(rest) != 1:
        sys.stderr.write("usage: supervisor.py [--foreground] FOLDER\n")
        return 2
    folder = Path(rest[0]).absolute()
    if not foreground:
        if os.fork():
            os._exit(0)
        os.setsid()
    lock = take_lock(folder)
    if lock is not None:
        Supervisor(folder, lock).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
