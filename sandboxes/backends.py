"""Backends of the sandbox: bubblewrap, a container, a plain process with limits; which is chosen."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from sandboxes.program import Limits, Outcome, Program, SandboxError
from sandboxes.watch import run_watched

FIRST_UID = 700_000
"""Where this process is root, each program gets a uid of its own: processes are counted by uid."""

_LIMITER = (
    "import os,resource as r,sys\n"
    "c,a,n,f,u=map(int,sys.argv[1:6])\n"
    "if u: os.setgroups([]); os.setresgid(u,u,u); os.setresuid(u,u,u)\n"
    "for k,v in ((r.RLIMIT_CPU,c),(r.RLIMIT_AS,a),(r.RLIMIT_NPROC,n),(r.RLIMIT_FSIZE,f),(r.RLIMIT_CORE,0),"
    "(r.RLIMIT_NOFILE,256)): r.setrlimit(k,(v,v))\n"
    "os.execvp(sys.argv[6],sys.argv[6:])\n"
)


class Backend(Protocol):
    """A way to run programs; `name` is what a user asks for."""

    name: str

    def missing(self) -> str:
        """Why it does not work here; empty where it does."""

    def run(self, program: Program, limits: Limits) -> Outcome:
        """Run a program.

        Raises:
            SandboxError: the sandbox does not work here.
        """


def limited(argv: tuple[str, ...], limits: Limits, user: int = 0, python: str = sys.executable) -> list[str]:
    """The command under its resource limits and, where given, another user.

    The interpreter that this process runs with sets them.
    """
    numbers = (limits.cpu_s, 2 * limits.memory_mib * 2**20, limits.processes, limits.file_mib * 2**20, user)
    return [python, "-I", "-S", "-c", _LIMITER, *map(str, numbers), *argv]


def environment(program: Program, home: str) -> dict[str, str]:
    """The allow-list: nothing of this process's environment."""
    base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8", "TMPDIR": home}
    return base | {"PYTHONDONTWRITEBYTECODE": "1"} | program.env


class BubblewrapBackend:
    """Namespaces: no network, no other process, only the system's libraries to read, a private /tmp."""

    name = "bubblewrap"

    def missing(self) -> str:
        """Why it does not work here; empty where it does."""
        return _bubblewrap_complaint()

    def run(self, program: Program, limits: Limits) -> Outcome:
        """Run a program; its files lie in its working folder /tmp."""
        user = FIRST_UID + secrets.randbelow(200_000) if os.getuid() == 0 else 0
        with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
            os.chmod(folder, 0o755)
            return run_watched(
                [
                    *self._line(program, limits, folder),
                    "--",
                    *limited(inside(program.argv), limits, user, inner_python()),
                ],
                stdin=program.stdin,
                limits=limits,
                env=environment(program, "/tmp"),
            )

    def _line(self, program: Program, limits: Limits, folder: str) -> Iterator[str]:
        yield from (shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--unshare-ipc")
        yield from (
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--cap-drop",
            "ALL",
        )
        if os.getuid() == 0:  # given up by the limiter, which becomes another user inside
            yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
        else:
            yield "--unshare-user"
        yield from ("--hostname", "sandbox")
        for path in system_paths():
            yield from (
                ("--symlink", os.readlink(path), path) if os.path.islink(path) else ("--ro-bind", path, path)
            )
        if not Path(sys.base_prefix).is_relative_to("/usr"):
            yield from ("--perms", "0755", "--dir", "/opt", "--ro-bind", sys.base_prefix, INTERPRETER)
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from ("--perms", "1777", "--size", str(limits.file_mib * 2**20), "--tmpfs", "/tmp")
        yield from ("--perms", "1777", "--size", "65536", "--tmpfs", "/dev/shm")
        for name, content in program.files.items():
            place = Path(folder) / name
            place.write_bytes(content)
            place.chmod(0o644)
            yield from ("--ro-bind", str(place), f"/tmp/{name}")
        yield from ("--remount-ro", "/", "--chdir", "/tmp")


@lru_cache(maxsize=1)
def system_paths() -> tuple[str, ...]:
    """What a program can read beside the interpreter: the system's programs and libraries, no data."""
    paths = [path for path in ("/usr", "/bin", "/lib", "/lib64", "/sbin") if os.path.lexists(path)]
    paths += [path for path in ("/etc/alternatives", "/etc/ld.so.cache") if os.path.exists(path)]
    return tuple(paths)


INTERPRETER = "/opt/python"
"""Where this interpreter's installation lies inside: its own place may be closed to others."""


def inside(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command with this interpreter's path as it is inside."""
    return (inner_python(), *argv[1:]) if argv[0] == sys.executable else argv


def inner_python() -> str:
    """This interpreter's path inside."""
    if Path(sys.base_prefix).is_relative_to("/usr"):
        return os.path.realpath(sys.executable)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return f"{INTERPRETER}/bin/{version}"


@lru_cache(maxsize=1)
def _bubblewrap_complaint() -> str:
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        outcome = BubblewrapBackend().run(Program((sys.executable, "-c", "print(1)")), Limits(wall_s=20))
    except (SandboxError, OSError) as error:
        return str(error)
    return (
        ""
        if outcome.stdout == b"1\n"
        else outcome.stderr.decode("utf-8", "replace").strip()[:200] or "failed"
    )


class ContainerBackend:
    """docker, podman or apptainer, whichever answers; the image comes from AUTOTRAINER_SANDBOX_IMAGE."""

    name = "container"

    def __init__(self, image: str | None = None) -> None:
        """Set it up with an image that has `python3`; nothing is pulled."""
        self.image = image or os.environ.get("AUTOTRAINER_SANDBOX_IMAGE", "python:3.11-slim")

    def missing(self) -> str:
        """Why it does not work here; empty where it does."""
        tool = self._tool()
        if tool is None:
            return "neither docker, podman nor apptainer is installed and answers"
        if (
            tool != "apptainer"
            and subprocess.run(
                [tool, "image", "inspect", self.image], capture_output=True, check=False, timeout=20
            ).returncode
        ):
            return f"{tool} has no image {self.image}: pull it or set AUTOTRAINER_SANDBOX_IMAGE"
        return ""

    @staticmethod
    def _tool() -> str | None:
        for tool, ask in (("docker", "info"), ("podman", "info"), ("apptainer", "version")):
            if shutil.which(tool) is None:
                continue
            try:
                done = subprocess.run([tool, ask], capture_output=True, check=False, timeout=20)
            except (OSError, subprocess.TimeoutExpired):
                continue
            if done.returncode == 0:
                return tool
        return None

    def command(self, tool: str, program: Program, limits: Limits, name: str, folder: str) -> list[str]:
        """The command line: no network, read-only root, no capabilities, limits as the tool's own."""
        if tool == "apptainer":
            return [
                *(
                    "apptainer",
                    "exec",
                    "--containall",
                    "--no-home",
                    "--net",
                    "--network",
                    "none",
                    "--cleanenv",
                ),
                *("--memory", f"{limits.memory_mib}M", "--pids-limit", str(limits.processes)),
                *("--bind", f"{folder}:/work:ro", "--pwd", "/work", self.image, *program.argv),
            ]
        return [
            *(
                tool,
                "run",
                "--rm",
                "-i",
                "--name",
                name,
                "--network",
                "none",
                "--read-only",
                "--cap-drop",
                "ALL",
            ),
            *("--security-opt", "no-new-privileges", "--user", "65534:65534"),
            *("--memory", f"{limits.memory_mib}m", "--memory-swap", f"{limits.memory_mib}m"),
            *("--pids-limit", str(limits.processes), "--ulimit", f"cpu={limits.cpu_s}"),
            *("--ulimit", f"fsize={limits.file_mib * 2**20}", "--ulimit", "core=0"),
            *("--tmpfs", f"/tmp:rw,size={limits.file_mib}m", "-v", f"{folder}:/work:ro", "-w", "/work"),
            *(part for key, value in program.env.items() for part in ("-e", f"{key}={value}")),
            *(self.image, *program.argv),
        ]

    def run(self, program: Program, limits: Limits) -> Outcome:
        """Run a program; its files lie in its working folder /work."""
        tool = self._tool()
        if tool is None or (complaint := self.missing()):
            raise SandboxError(complaint if tool else self.missing())
        name = f"sandbox-{secrets.token_hex(8)}"
        with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
            os.chmod(folder, 0o755)
            for file, content in program.files.items():
                (Path(folder) / file).write_bytes(content)

            def stop() -> None:
                if tool != "apptainer":
                    subprocess.run([tool, "kill", name], capture_output=True, check=False, timeout=30)

            return run_watched(
                self.command(tool, program, limits, name, folder),
                stdin=program.stdin,
                limits=limits,
                env={"PATH": os.environ.get("PATH", "/usr/bin"), "HOME": os.environ.get("HOME", "/")},
                stop=stop,
            )


class ProcessBackend:
    """A plain process with limits and an empty environment. No isolation: it reads what we read."""

    name = "process"

    def missing(self) -> str:
        """Empty: it works everywhere."""
        return ""

    def run(self, program: Program, limits: Limits) -> Outcome:
        """Run a program; its files lie in its working folder."""
        with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
            for name, content in program.files.items():
                (Path(folder) / name).write_bytes(content)
            # Only the program's own files are elsewhere: an interpreter may itself lie below /tmp.
            own = {f"/tmp/{name}": f"{folder}/{name}" for name in program.files}
            argv = [own.get(arg, arg) for arg in program.argv]
            return run_watched(
                limited(tuple(argv), limits),
                stdin=program.stdin,
                limits=limits,
                env=environment(program, folder),
                cwd=folder,
            )


BACKENDS = ("bubblewrap", "container", "process")


def backend(name: str = "auto") -> Backend:
    """The backend of that name; `auto` is bubblewrap or a container, never the plain process.

    Raises:
        SandboxError: it is unknown or does not work here.
    """
    if name not in ("auto", *BACKENDS):
        raise SandboxError(f"unknown sandbox {name!r}: known are auto, {', '.join(BACKENDS)}")
    choices: dict[str, Backend] = {
        "bubblewrap": BubblewrapBackend(),
        "container": ContainerBackend(),
        "process": ProcessBackend(),
    }
    wanted = ("bubblewrap", "container") if name == "auto" else (name,)
    complaints: list[str] = []
    for one in wanted:
        complaint = choices[one].missing()
        if not complaint:
            return choices[one]
        complaints.append(f"{one}: {complaint}")
    raise SandboxError(
        "; ".join(complaints) + "; the plain process has to be asked for: AUTOTRAINER_SANDBOX=process"
    )
