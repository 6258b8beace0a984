"""Finding studies: by id, by folder, or the newest one; and naming new ones."""

from __future__ import annotations

import re
import time
from pathlib import Path

from autotrainer.cli.nearest import did_you_mean
from autotrainer.errors import ConfigError

_LISTED = 8


def studies(runs: Path) -> list[Path]:
    """The folders of the studies under `runs`, newest first."""
    try:
        found = [path for path in runs.iterdir() if (path / "study.toml").is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda path: ((path / "study.toml").stat().st_mtime_ns, path.name), reverse=True)


def find_study(study: str | None, runs: Path) -> Path:
    """The folder of a study: an id under `runs`, a path, or None for the newest.

    Raises:
        ConfigError: there is none; the message names those that are there.
    """
    known = studies(runs)
    if study is None:
        if not known:
            raise ConfigError(
                f"there is no study in {runs}: start one with `autotrainer run`, or give --runs DIR"
            )
        return known[0].resolve()
    for candidate in (runs / study, Path(study).expanduser()):
        if (candidate / "study.toml").is_file():
            return candidate.resolve()
    names = ", ".join(path.name for path in known[:_LISTED]) or "none"
    more = f" and {len(known) - _LISTED} older" if len(known) > _LISTED else ""
    raise ConfigError(
        f"unknown study {study!r}: known in {runs} are {names}{more}; the path of one works too"
        f"{did_you_mean(study, [path.name for path in known])}"
    )


def new_study_id(task: str, runs: Path) -> str:
    """An id that no study under `runs` has: task, date and time, and a number where that is not enough."""
    short = (
        re.sub(r"[^A-Za-z0-9_-]+", "-", re.sub(r"\?.*", "", task).rpartition("/")[2]).strip("-")[:40]
        or "task"
    )
    stem = f"{short}-{time.strftime('%Y%m%d-%H%M%S')}"
    study, number = stem, 2
    while (runs / study).exists():
        study, number = f"{stem}-{number}", number + 1
    return study
