"""Search against the tuners that people use, at equal device time; SIMULATED (suites: large, small).

The same study loop in the simulated world: `large` has the nodes and times of a day on eight GPUs, `small`
those of twenty minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotrainer.bench.base import BenchOptions
from autotrainer.bench.simulated import figures
from autotrainer.bench.simulated.tournament import cells, run_cells
from autotrainer.bench.simulated.tuners import SETTINGS
from autotrainer.errors import ConfigError
from autotrainer.simulation.surface import FAMILIES

OURS = "rules"
BASELINES: dict[str, tuple[str, ...]] = {
    "random": ("random", "random-short"),
    "grid": ("grid", "grid-short"),
    "tpe": ("tpe", "tpe-short"),
    "cma": ("cma", "cma-short"),
    "asha": ("asha",),
    "pbt": ("pbt",),
    "careful": ("careful",),
}
"""Each baseline with the lengths of its trials; the length that does better over all cases counts."""
SEEDS = 8
FIRST_SEED = 5000
"""Surfaces from this seed on were never looked at while the planner was built."""


def run(options: BenchOptions) -> dict[str, Any]:
    """Play every tuner on every surface and compare.

    Raises:
        ConfigError: the suite is unknown.
    """
    suite = options.suite or "large"
    if suite not in SETTINGS:
        raise ConfigError(f"unknown suite {suite!r} of planners: known are {', '.join(SETTINGS)}")
    seeds = range(FIRST_SEED, FIRST_SEED + (options.seeds or SEEDS))
    tuners = [OURS, "rules-restarts", *(name for variants in BASELINES.values() for name in variants)]
    rows = run_cells(
        cells([suite], list(FAMILIES), seeds, tuners),
        done=lambda done, total: options.progress(f"{done} of {total} studies") if done % 100 == 0 else None,
    )
    return {
        "name": "planners" if suite == "large" else f"planners-{suite}",
        "simulated": True,
        "suite": suite,
        "figures": compare(rows),
        "rows": [{key: value for key, value in row.items() if key != "curve"} for row in rows],
    }


def compare(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of one setting."""
    best = figures.best_known(rows)
    chosen = {name: _better(rows, variants, best) for name, variants in BASELINES.items()}
    everyone = {OURS: OURS, "rules-restarts": "rules-restarts", **chosen}
    halfway = [row for row in rows if row["family"] == "halfway"]
    return {
        "probability_of_improvement": {
            name: figures.probability_of_improvement(rows, OURS, tuner) for name, tuner in chosen.items()
        },
        "probability_of_improvement_by_family": {
            family: {
                name: figures.probability_of_improvement(
                    [row for row in rows if row["family"] == family], OURS, tuner
                )["mean"]
                for name, tuner in chosen.items()
            }
            for family in dict.fromkeys(row["family"] for row in rows)
        },
        "median_relative_gain": {
            name: figures.relative_gain(rows, OURS, tuner) for name, tuner in chosen.items()
        },
        "regret": {name: figures.regret(rows, tuner, best) for name, tuner in everyone.items()},
        "area_under_best": {name: figures.area(rows, tuner, best) for name, tuner in everyone.items()},
        "time_to_careful": {
            name: figures.time_to(rows, tuner, "careful")
            for name, tuner in everyone.items()
            if name != "careful"
        },
        "forks_over_restarts_halfway": figures.probability_of_improvement(halfway, OURS, "rules-restarts"),
        "trial_length": {
            name: "short" if tuner.endswith("-short") else "long" for name, tuner in chosen.items()
        },
    }


def _better(rows: Sequence[dict[str, Any]], variants: Sequence[str], best: dict[figures.Case, float]) -> str:
    return min(variants, key=lambda tuner: figures.regret(rows, tuner, best)["mean"])
