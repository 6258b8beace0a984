"""The supervisor of one job: `python supervisor.py FOLDER`, detached; it outlives the control plane.

It holds the folder's lock (inherited by the job, so the lock is held while either lives), starts the job in a process group of its own,
ends it at its wall limit, when it hangs or when asked, writes down when it ended, and leaves a result.json where the job could not.
Standard library only and run by path, so that it starts in a few hundredths of a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

POLL_S = 0.1
TAIL_BYTES = 2000


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write aside, fsync, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1, sort_keys=True, allow_nan=False)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file, or None where it is missing or half there."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def creation_time(pid: int) -> float | None:
    """When a process was created, in clock ticks since boot, so that a reused pid is not taken for it; None where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return float(fields[19]) if len(fields) > 19 else None


class Supervisor:
    """Runs one job from launch.json to supervisor.json and result.json."""

    def __init__(self, folder: Path, lock: int) -> None:
        """Take over a folder whose lock is held through the descriptor `lock`."""
        self.folder, self.lock = folder, lock
        self.launch = json.loads((folder / "launch.json").read_text(encoding="utf-8"))
        self.started = time.time()
        self.process: subprocess.Popen[bytes] | None = None
        self.job_create_time: float | None = None
        self.grade = "C"
        self.killed: str | None = None
        self.kill_at: float | None = None
        self.terminated = False
        signal.signal(signal.SIGTERM, self._on_term)

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True

    def run(self) -> None:
        """Start the job and stay until it ends."""
        self._record(None, None)
        argv, self.grade = self._wrapped()
        with (self.folder / "job.log").open("ab") as log:
            try:
                self.process = subprocess.Popen(
                    argv, cwd=self.launch["cwd"], env=self.launch["env"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True, pass_fds=(self.lock,),
                )
            except OSError as error:
                log.write(f"cannot start {argv[0]}: {error}\n".encode())
                self._finish(None)
                return
        self.job_create_time = creation_time(self.process.pid)
        self._record(None, None)
        while (code := self.process.poll()) is None:
            self._watch()
            time.sleep(POLL_S)
        self._end_group()
        self._finish(code)

    def _wrapped(self) -> tuple[list[str], str]:
        """The job's argv inside the isolation that this machine can give, and its grade."""
        isolation = Path(self.launch["cwd"]) / "sandboxes" / "isolation.py"
        if not self.launch.get("hide") or not isolation.is_file():
            return self.launch["argv"], "C"
        request = json.dumps({key: self.launch[key] for key in ("argv", "hide", "writable", "network")})
        answer = subprocess.run(
            [sys.executable, str(isolation), "wrap"], input=request.encode(), capture_output=True, timeout=30, check=False
        )
        try:
            wrapped = json.loads(answer.stdout)
            return list(wrapped["argv"]), str(wrapped["grade"])
        except (ValueError, KeyError):
            return self.launch["argv"], "C"

    def _watch(self) -> None:
        now = time.time()
        if self.kill_at is not None:
            if now >= self.kill_at:
                self._signal(signal.SIGKILL)
            return
        reason = self._reason_to_end(now)
        if reason is not None:
            self.killed = reason
            self.kill_at = now + float(self.launch.get("grace_s", 20.0))
            self._signal(signal.SIGTERM)

    def _reason_to_end(self, now: float) -> str | None:
        if self.terminated or (self.folder / "cancel.json").exists():
            return "cancelled"
        if now - self.started > float(self.launch["wall_s"]):
            return "wall"
        beat = read_json(self.folder / "heartbeat.json")
        if beat is None:
            return None
        if now - max(float(beat.get("time", now)), self.started) > float(self.launch["heartbeat_stale_s"]):
            return "hung"
        limit = self.launch.get("phase_s", {}).get(beat.get("phase"))
        if limit is not None and now - float(beat.get("phase_started", now)) > float(limit):
            return "hung"
        return None

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def _end_group(self) -> None:
        """Whatever the job left behind in its group ends with it."""
        self._signal(signal.SIGKILL)

    def _finish(self, code: int | None) -> None:
        ended = time.time()
        if read_json(self.folder / "result.json") is None:
            write_json(self.folder / "result.json", self._crashed(code, ended))
        self._record(ended, code)

    def _crashed(self, code: int | None, ended: float) -> dict[str, Any]:
        how = "did not start" if code is None else f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if self.killed is not None:
            how += {"wall": ", over its wall limit", "hung": ", hung", "cancelled": ", cancelled"}[self.killed]
        tail = b""
        with contextlib.suppress(OSError):
            tail = (self.folder / "job.log").read_bytes()[-TAIL_BYTES:]
        last = tail.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
        return {
            "schema_version": 1, "job_id": self.launch["job_id"], "status": "crashed",
            "reason": f"{how} without a result; last output: {last[0][:300]}", "failure": None, "steps": self._steps(),
            "tokens": 0, "device_seconds": (ended - self.started) * max(1, len(self.launch.get("devices", []))),
            "started": self.started, "ended": ended, "checkpoints": self._checkpoints(), "frozen_before": {},
            "frozen_after": {}, "start": {}, "stop": None, "written_by": "supervisor",
        }

    def _steps(self) -> int:
        try:
            lines = (self.folder / "metrics.jsonl").read_bytes().split(b"\n")[:-1]
            return int(json.loads(lines[-1])["step"]) if lines else 0
        except (OSError, ValueError, KeyError):
            return 0

    def _checkpoints(self) -> list[dict[str, Any]]:
        found = []
        for path in (self.folder / "checkpoints").glob("*/checkpoint.json"):
            about = read_json(path)
            if about is not None and path.parent.name.isdigit():
                found.append({"step": int(path.parent.name), "kind": about.get("kind", "weights")})
        return sorted(found, key=lambda item: int(str(item["step"])))

    def _record(self, ended: float | None, code: int | None) -> None:
        pid = self.process.pid if self.process is not None else None
        write_json(self.folder / "supervisor.json", {
            "schema_version": 1, "job_id": self.launch["job_id"], "pid": os.getpid(),
            "create_time": creation_time(os.getpid()) or 0.0, "job_pid": pid,
            "job_create_time": self.job_create_time, "started": self.started,
            "ended": ended, "exit_code": code, "killed": self.killed, "isolation": self.grade,
        })


def main(folder: Path) -> int:
    """Detach, then supervise the job in a folder; 0 also where another supervisor has it or had it."""
    if os.fork():
        os._exit(0)
    os.setsid()
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    if (folder / "supervisor.json").exists():
        return 0
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()} {creation_time(os.getpid())}\n".encode())
    Supervisor(folder, lock).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
