"""What every benchmark takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What the command line asks of a benchmark.

    `suite` picks a part of it (empty: the benchmark's default), `seeds` the number of repetitions (None: the
    benchmark's own), `work` a folder for what it leaves behind and resumes from, `progress` takes lines for a
    person.
    """

    suite: str = ""
    seeds: int | None = None
    work: Path = Path("runs/bench")
    progress: Callable[[str], None] = field(default=lambda text: None)


class Benchmark(Protocol):
    """A module `autotrainer/bench/<name>.py`: its docstring's first line says what it measures."""

    def run(self, options: BenchOptions) -> dict[str, Any]:
        """Measure: `{"figures": {...}, "rows": [...]}`, and whatever else belongs into the recorded file.

        A figure is `{mean or median, low, high, n}` or a plain count. An optional key `name` says under which
        name it is recorded, where that is not the benchmark's own (a suite of its own file).

        Raises:
            ConfigError: the suite is unknown.
        """
        ...
