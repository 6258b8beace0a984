"""What is asked of an isolation, and how good the one is that a machine can give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Grade(StrEnum):
    """How well code is kept from what it must not reach."""

    A = "A"
    """Namespaces: hidden paths cannot be read, what was not named not be written, and there is no network."""
    B = "B"
    """Another user or a container."""
    C = "C"
    """Nothing: only digests tell afterwards."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """A grade, and what keeps it from being better; empty where nothing does."""

    grade: Grade
    reason: str


@dataclass(frozen=True, slots=True)
class Request:
    """A command, the absolute paths it must not see, those it may write to, and whether it has a network.

    Of two paths one inside the other the inner one counts; of two equal ones `hide` does. A path that is not
    there when the command starts is neither hidden nor made writable.
    """

    argv: tuple[str, ...]
    hide: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: the command is empty or a path is not absolute.
        """
        if not self.argv:
            raise ValueError("argv is empty: it must name a program")
        for name, paths in (("hide", self.hide), ("writable", self.writable)):
            for path in paths:
                if not Path(path).is_absolute():
                    raise ValueError(f"{name} has the relative path {path!r}: only absolute ones are allowed")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Request:
        """A request as JSON gives it; keys that are left out have their defaults.

        Raises:
            ValueError: a key is unknown or a value has the wrong type.
        """
        if unknown := sorted(set(value) - {"argv", "hide", "writable", "network"}):
            raise ValueError(f"unknown key {unknown[0]!r}: allowed are argv, hide, writable, network")
        network = value.get("network", False)
        if not isinstance(network, bool):
            raise ValueError(f"network is {network!r}: it must be true or false")
        argv, hide, writable = (_strings(name, value.get(name, [])) for name in ("argv", "hide", "writable"))
        return cls(argv, hide, writable, network)


def _strings(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name} is {value!r}: it must be a list of strings")
    return tuple(value)
