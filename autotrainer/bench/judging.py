"""A/A studies: how often a search claims something where there is nothing; SIMULATED.

Every recipe is worth the same and runs differ by their seed alone, at deviations of 0, 1 and 2 points:
whatever a study claims is false. Beside it the share of the search-time gain that confirmation leaves, on
surfaces where there is something to find.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any

from autotrainer.bench.base import BenchOptions
from autotrainer.bench.simulated import figures
from autotrainer.bench.simulated.player import play
from autotrainer.bench.simulated.tuners import SETTINGS
from autotrainer.simulation.surface import FAMILIES, draw_surface, same_for_all

STUDIES = 1000
DEVIATIONS = (0.0, 0.01, 0.02)
_GAIN_SEEDS = 12
_NODES = 12


def run(options: BenchOptions) -> dict[str, Any]:
    """Play the A/A studies and the confirmed ones."""
    studies = options.seeds or STUDIES
    aa = [("aa", deviation, seed) for deviation in DEVIATIONS for seed in range(studies)]
    gains = [(family, 0.0, 9000 + seed) for seed in range(min(_GAIN_SEEDS, studies)) for family in FAMILIES]
    rows = []
    with ProcessPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        for row in pool.map(_study, [*aa, *gains], chunksize=8):
            rows.append(row)
            if len(rows) % 100 == 0:
                options.progress(f"{len(rows)} of {len(aa) + len(gains)} studies")
    return {"simulated": True, "figures": _figures(rows), "rows": rows}


def _study(case: tuple[str, float, int]) -> dict[str, Any]:
    family, deviation, seed = case
    setting = SETTINGS["large"]
    surface = same_for_all(deviation) if family == "aa" else draw_surface(family, seed)
    search = {"mode": "tree", **({"max_nodes": _NODES} if family == "aa" else {})}
    played = play(surface, seed=seed, budget=setting.budget, cost=setting.cost, search=search)
    promoted = played.summary.get("winner")
    gain = played.summary.get("confirmed_gain")
    return {
        "family": family,
        "deviation": deviation,
        "seed": seed,
        "claims": played.summary.get("arm") == "search",
        "promoted": promoted is not None,
        "true_gain": played.true[promoted] - played.true["n000"] if promoted else None,
        "search_time_gain": played.summary.get("search_time_gain"),
        "confirmed_gain": gain["mean"] if gain else None,
        "confirmed_share": played.summary.get("confirmed_share"),
        "stopped_searching": any("constant recipe" in reason for reason in played.reasons),
    }


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"false_claims": {}}
    for deviation in DEVIATIONS:
        aa = [row for row in rows if row["family"] == "aa" and row["deviation"] == deviation]
        claims = sum(row["claims"] for row in aa)
        found["false_claims"][f"{100 * deviation:.0f}_points"] = rate(claims, len(aa))
    real = [row for row in rows if row["family"] != "aa"]
    shares = {
        (row["family"], row["seed"]): row["confirmed_share"]
        for row in real
        if row["confirmed_share"] is not None
    }
    if shares:
        found["confirmed_over_search_time_gain"] = figures.figure(shares, median)
    found["claims_by_family"] = {
        family: rate(sum(row["claims"] for row in group), len(group))
        for family in dict.fromkeys(row["family"] for row in real)
        for group in [[row for row in real if row["family"] == family]]
    }
    found["stopped_searching_by_family"] = {
        family: rate(sum(row["stopped_searching"] for row in group), len(group))
        for family in dict.fromkeys(row["family"] for row in real)
        for group in [[row for row in real if row["family"] == family]]
    }
    promoted = [row for row in real if row["promoted"]]
    worse = sum(row["true_gain"] <= 0 for row in promoted)
    found["promoted_worse_than_base"] = rate(worse, len(promoted))
    return found


def rate(count: int, of: int) -> dict[str, Any]:
    """A rate with its 95 % interval (Clopper and Pearson 1934)."""
    from scipy.stats import beta

    low = float(beta.ppf(0.025, count, of - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, of - count)) if count < of else 1.0
    return {"mean": count / of if of else 0.0, "low": low, "high": high, "n": of}
