"""One API for programs nobody trusts: what is run, its limits, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class SandboxError(RuntimeError):
    """The sandbox itself does not work here; says nothing about the program."""


class Ending(StrEnum):
    """How a program ended."""

    EXITED = "exited"
    WALL = "wall"
    """Killed: it ran past its wall time."""
    MEMORY = "memory"
    """Killed: all its processes together held more than their memory."""
    OUTPUT = "output"
    """Killed: it wrote more to stdout or stderr than it may."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, MiB and counts that a program may use, all its processes together (CPU time: each)."""

    wall_s: float = 5.0
    cpu_s: int = 5
    memory_mib: int = 512
    processes: int = 32
    file_mib: int = 16
    """One file, and all of the private /tmp together."""
    output_bytes: int = 65_536

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: one is not above 0.
        """
        for name, value in asdict(self).items():
            if value <= 0:
                raise ValueError(f"{name} = {value} must be above 0")


@dataclass(frozen=True, slots=True)
class Program:
    """A command with its standard input, files for its working folder (flat names) and environment."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    """The whole environment beside PATH, HOME, LANG and TMPDIR."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: the command is empty or a file name is a path.
        """
        if not self.argv:
            raise ValueError("argv is empty: it must name a program")
        for name in self.files:
            if "/" in name or name in ("", ".", ".."):
                raise ValueError(f"file {name!r}: only plain names are allowed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a program: exit code (negative: a signal) and what it wrote, cut to the limit."""

    ending: Ending
    exit_code: int
    stdout: bytes
    stderr: bytes
    wall_s: float

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values; bytes as Latin-1."""
        return asdict(self) | {
            "ending": str(self.ending),
            "stdout": self.stdout.decode("latin-1"),
            "stderr": self.stderr.decode("latin-1"),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Outcome:
        """The outcome that `to_json` wrote."""
        return cls(
            Ending(value["ending"]),
            int(value["exit_code"]),
            str(value["stdout"]).encode("latin-1"),
            str(value["stderr"]).encode("latin-1"),
            float(value["wall_s"]),
        )
