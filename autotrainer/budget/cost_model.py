"""Nominal cost of a job before anything was measured: what `--dry-run` uses, and what the smoke run replaces.

The figures are orders of magnitude, not measurements of the user's machine: on a CPU core a GRPO step of the
shipped tiny model takes 0.12-0.18 s and a job needs about 8 s for its imports; on an H100 a step of a 1.5B
model with 64 prompts x 8 completions of about a thousand tokens takes about 47 s. Other sizes scale with the
number of parameters.
"""

from __future__ import annotations

import re

from autotrainer.search.plan import JobCost

_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*([mMbB])(?![a-zA-Z])")


def parameters_from_name(model: str) -> float | None:
    """The number of parameters that a model's name states (`...-0.5B-...`), or None."""
    match = _SIZE.search(model.replace("_", "-").replace("/", "-"))
    if match is None:
        return None
    return float(match[1]) * (1e9 if match[2] in "bB" else 1e6)


def nominal_cost(model: str, *, cpu: bool) -> JobCost:
    """The cost model by name and kind of device."""
    if model == "tiny":
        return JobCost(startup_s=9.0, step_s=0.2, eval_s=4.0) if cpu else JobCost(12.0, 0.1, 2.0)
    size = parameters_from_name(model) or 0.5e9
    if cpu:
        return JobCost(startup_s=15.0, step_s=12.0 * size / 135e6, eval_s=240.0 * size / 135e6)
    return JobCost(startup_s=60.0, step_s=47.0 * size / 1.5e9, eval_s=120.0 * size / 1.5e9)
