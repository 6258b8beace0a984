"""ForeignRun: somebody's run as it was read, and `read_runs`, which reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.readers.keys import normalised
from autotrainer.diagnostics.readers.parsers import FORMATS, detect
from autotrainer.errors import ConfigError

MAX_BYTES = 400 * 2**20
_RESTART_AT = 2
"""A step that falls back to this or below begins another run; to more, it is the same run resumed."""


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """The rows of a run, its format, and whether its steps were counted here because none were logged."""

    format: str
    metrics: Metrics
    counted: bool
    keys: frozenset[str]


def read_runs(path: Path, format: str | None = None) -> list[ForeignRun]:
    """The runs in a file or folder, in the order in which they stand there.

    Args:
        path: a log, a table, a state file, an event folder, a run folder of MLflow.
        format: one of FORMATS; None: detected from the content.

    Raises:
        ConfigError: it cannot be read, or holds no row of metrics; one line that says what is known.
    """
    if format is not None and format not in FORMATS:
        raise ConfigError(f"unknown format {format!r}: known are {', '.join(FORMATS)}")
    if not path.exists():
        raise ConfigError(f"there is no {path}")
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise ConfigError(
            f"{path} has {path.stat().st_size / 2**20:.0f} MiB: at most {MAX_BYTES / 2**20:.0f} are read"
        )
    name, rows = _rows(path, format)
    runs = [_run(name, part) for part in _split([normalised(row) for row in rows])]
    found = [run for run in runs if run.keys - {"step"}]
    if not found:
        raise ConfigError(
            f"{path} holds no metrics that are known (read as {name}): formats are {', '.join(FORMATS)}; "
            "--format chooses one"
        )
    return found


def _rows(path: Path, format: str | None) -> tuple[str, Sequence[Mapping[str, Any]]]:
    name = format or detect(path)
    return name, FORMATS[name](path)


def _split(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """One list a run: the step counter that starts again starts a run."""
    runs: list[list[dict[str, Any]]] = [[]]
    last: float | None = None
    for row in rows:
        step = row.get("step")
        if isinstance(step, int | float) and step == step:
            if last is not None and step < last and step <= _RESTART_AT < last:
                runs.append([])
            last = step
        runs[-1].append(row)
    return [run for run in runs if run]


def _run(name: str, rows: list[dict[str, Any]]) -> ForeignRun:
    useful = [row for row in rows if len(row) > ("step" in row)]
    counted = not any("step" in row for row in useful)
    placed, last = [], 0
    for row in useful:
        step = row.get("step")
        known = isinstance(step, int | float) and step == step and abs(step) < 1e12
        last = int(step) if known and step is not None else last + 1
        placed.append({**row, "step": last})
    merged = _merged(placed) if not counted else placed
    keys = frozenset(key for row in merged for key in row)
    return ForeignRun(name, Metrics(merged), counted, keys)


def _merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one step as one: loggers write train and eval lines apart; a later value wins."""
    by_step: dict[int, dict[str, Any]] = {}
    for row in rows:
        by_step.setdefault(row["step"], {}).update(row)
    return list(by_step.values())
