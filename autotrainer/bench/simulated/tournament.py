"""Tuners against each other on simulated surfaces, in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

from autotrainer.bench.simulated.tuners import SETTINGS, run_tuner
from autotrainer.simulation.surface import draw_surface

Cell = tuple[str, str, int, str]
"""Setting, family of surfaces, seed (of surface and study), tuner."""


def cells(
    settings: Sequence[str], families: Sequence[str], seeds: Iterable[int], tuners: Sequence[str]
) -> list[Cell]:
    """All cells, tuners in turns."""
    return [
        (setting, family, seed, tuner)
        for setting, seed, family, tuner in product(settings, seeds, families, tuners)
    ]


def run_cell(cell: Cell) -> dict[str, Any]:
    """Play one cell."""
    setting, family, seed, tuner = cell
    row = run_tuner(tuner, draw_surface(family, seed), seed, SETTINGS[setting])
    return {"setting": setting, "family": family, "seed": seed, **row}


def run_cells(
    todo: Sequence[Cell], *, workers: int | None = None, done: Callable[[int, int], None] = lambda n, of: None
) -> list[dict[str, Any]]:
    """The rows of the cells, in their order."""
    count = workers or max(1, len(os.sched_getaffinity(0)))
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(count) as pool:
        for row in pool.map(run_cell, todo, chunksize=4):
            rows.append(row)
            done(len(rows), len(todo))
    return rows
