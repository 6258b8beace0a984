"""Kill rules, replayed on a bank of full curves: device time saved, and winners lost; SIMULATED curves.

A group is what a study trains side by side: the careful recipe and random ones on one surface, all to the
end. The rules see each curve as far as the loop would have. What a study would have promoted is the run with
the best end where that is two points above the careful runs, otherwise a careful run; those are stopped by
fatal findings only. Groups in which no run ends above the base model would have promoted nothing and are left
out of the rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from autotrainer.bench.base import BenchOptions
from autotrainer.bench.judging import rate
from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.triage import first_kill
from autotrainer.planners.space import draw, knobs_of
from autotrainer.recipe.careful import careful_recipe
from autotrainer.recipe.compile import job_stages
from autotrainer.search.kill_rules import Behind
from autotrainer.simulation.dynamics import rows
from autotrainer.simulation.levers import Levers
from autotrainer.simulation.policy import PolicyState, accuracy
from autotrainer.simulation.surface import FAMILIES, draw_surface

GROUPS = 12
"""Groups a family."""
CAREFUL, WORTH = 2, 0.02
RUNS, STEPS, PROBE_EVERY, LOOK_EVERY, CAP = 8, 240, 10, 5, 8
RUNGS = (0.125, 0.25, 0.5)
FIRST_SEED = 7000


@dataclass(frozen=True, slots=True)
class Curve:
    """A full run: its metrics, the knobs behind it, its true accuracy at the end and the base model's."""

    metrics: Metrics
    knobs: dict[str, Any]
    final: float
    base: float


def run(options: BenchOptions) -> dict[str, Any]:
    """Build the bank and replay the rules."""
    groups = options.seeds or GROUPS
    table = []
    for family in FAMILIES:
        for seed in range(FIRST_SEED, FIRST_SEED + groups):
            table.append({"family": family, "seed": seed, **replay(bank(family, seed))})
        options.progress(f"{family}: {groups} groups of {RUNS} full curves")
    return {"simulated": True, "figures": _figures(table), "rows": table}


def bank(family: str, seed: int) -> list[Curve]:
    """The full curves of a group: careful twice, then random recipes of the box."""
    surface, rng = draw_surface(family, seed), Random(f"bank {family} {seed}")
    careful = careful_recipe("tiny", "math", seed, STEPS, CAP)
    stage = careful.stages[0]
    recipes = [careful] * CAREFUL + [
        careful.with_knobs(knobs_of(stage, draw(stage, rng))) for _ in range(RUNS - CAREFUL)
    ]
    base, curves = accuracy(surface, PolicyState()), []
    for recipe in recipes:
        job = job_stages(recipe, "cpu")[0]
        levers = Levers.of_stage(job, "tiny", CAP, int(stage.knobs["prompts_per_step"]), False)
        run_seed = rng.randrange(2**31)
        steps = list(rows(surface, PolicyState(), levers, STEPS, run_seed, PROBE_EVERY))
        metrics = Metrics(row for row, _ in steps)
        curves.append(Curve(metrics, dict(recipe.stages[0].knobs), accuracy(surface, steps[-1][1]), base))
    return curves


def replay(curves: Sequence[Curve]) -> dict[str, Any]:
    """When each run of a group is stopped, and whether the winner is among the stopped ones."""
    ends = [_fatal_end(curve) for curve in curves]
    rule = Behind(rungs=RUNGS)
    for step in rule.rung_steps(STEPS):
        alive = [place for place, end in enumerate(ends) if end > step]
        probes = {
            place: curves[place].metrics.until(min(step, ends[place])).series("probe/accuracy")
            for place in alive
        }
        for place in alive:
            if place < CAREFUL:
                continue
            others = [probes[other] for other in alive if other != place]
            if rule.reason(probes[place], others, step) is not None:
                ends[place] = step
    finals = [curve.final for curve in curves]
    careful = max(finals[:CAREFUL])
    winner = finals.index(max(finals) if max(finals) > careful + WORTH else careful)
    fatal = [_fatal_end(curve) < STEPS for curve in curves]
    return {
        "ends": ends,
        "saved": 1 - sum(ends) / (STEPS * len(curves)),
        "promotable": finals[winner] > curves[winner].base,
        "winner_killed": ends[winner] < STEPS,
        "winner_final": curves[winner].final,
        "kept_final": max(
            (curve.final for curve, end in zip(curves, ends, strict=True) if end == STEPS), default=0.0
        ),
        "fatal": sum(fatal),
        "fatal_winner": fatal[winner],
    }


def _fatal_end(curve: Curve) -> int:
    context = {**curve.knobs, "steps": STEPS, "fork": False, "base_accuracy": None}
    found = first_kill(curve.metrics, context, LOOK_EVERY)
    return found[0] if found is not None else STEPS


def _figures(table: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from autotrainer.bench.simulated.figures import figure

    promoted = [row for row in table if row["promotable"]]
    lost = {(row["family"], row["seed"]): row["winner_final"] - row["kept_final"] for row in table}
    return {
        "curves": len(table) * RUNS,
        "device_time_saved": figure({(row["family"], row["seed"]): row["saved"] for row in table}),
        "false_kill_rate": rate(sum(row["winner_killed"] for row in promoted), len(promoted)),
        "fatal_false_kill_rate": rate(sum(row["fatal_winner"] for row in promoted), len(promoted)),
        "accuracy_lost": figure(lost),
        "runs_stopped_as_fatal": sum(row["fatal"] for row in table),
    }
