"""The recorded results: `experiments/results/NAME.json`, where figures of README and docs come from."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autotrainer.errors import ConfigError
from autotrainer.files import SCHEMA_VERSION, read_json, write_json


def results_folder() -> Path:
    """Where results are recorded: experiments/results of the checkout, else of the working directory."""
    root = Path(__file__).resolve().parents[2]
    home = root if (root / "experiments").is_dir() else Path.cwd()
    return home / "experiments" / "results"


def result_path(name: str, folder: Path | None = None) -> Path:
    """The file of a benchmark's results."""
    return (folder or results_folder()) / f"{name}.json"


def document(name: str, measured: Mapping[str, Any], command: Sequence[str]) -> dict[str, Any]:
    """What is recorded: where and when it was measured, by which command, and what."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "command": " ".join(command),
        **{key: value for key, value in measured.items() if key != "name"},
    }


def write_result(
    name: str, measured: Mapping[str, Any], command: Sequence[str], folder: Path | None = None
) -> Path:
    """Record what a benchmark measured; `measured` has `figures` and, unless empty, `rows`."""
    path = result_path(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, document(name, measured, command))
    return path


def read_result(name: str, folder: Path | None = None) -> dict[str, Any]:
    """What was last recorded.

    Raises:
        ConfigError: nothing was; the message says how to record it.
    """
    path = result_path(name, folder)
    if not path.is_file():
        raise ConfigError(f"there is no recorded result at {path}: run `autotrainer bench {name}`")
    value: dict[str, Any] = read_json(path)
    return value


def machine() -> dict[str, Any]:
    """The machine in words that matter to a figure: cores, processor, system, Python; no host name."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def commit() -> str:
    """The checkout's commit, `-dirty` where tracked files differ from it; empty outside of a checkout."""
    root = str(Path(__file__).resolve().parents[2])
    try:
        found = subprocess.run(
            ["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


def command_line() -> list[str]:
    """This process's command, by its name alone."""
    return ["autotrainer", *sys.argv[1:]]
