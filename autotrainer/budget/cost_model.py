"""Nominal cost of a job: what `--dry-run` uses, and what the smoke run before the clock replaces."""

from __future__ import annotations

from math import ceil

from autotrainer.budget.device_table import DEVICES, device
from autotrainer.budget.memory import Batch
from autotrainer.budget.model_shape import shape_of
from autotrainer.budget.step_time import step_time
from autotrainer.errors import ConfigError
from autotrainer.search.plan import JobCost

GENERATION_BATCH = 512
"""Sequences that the evaluator generates at a time."""
_TINY_CPU = JobCost(startup_s=4.5, step_s=0.15, eval_s=1.5)
"""Measured: the shipped model on one CPU core."""
_CPU_STARTUP_S, _GPU_STARTUP_S = 8.0, 45.0
_LOAD_BYTES_S = 1e9


def nominal_cost(model: str, kind: str, *, batch: Batch, eval_items: int, eval_samples: int) -> JobCost:
    """The cost model of a job by arithmetic (budget/step_time.py), with no device there.

    Args:
        model: shipped model, folder or hub id.
        kind: the device kind of the budget.
        batch: what a step sees; its completion tokens are the cap.
        eval_items: items of dev that a node is scored on.
        eval_samples: sampled completions an item; one greedy one comes on top.

    Raises:
        ConfigError: the model's size or the kind of device is not known.
    """
    if model == "tiny" and kind == "CPU":
        return _TINY_CPU
    try:
        own = device(kind)
    except KeyError:
        raise ConfigError(
            f"nothing is known about device kind {kind!r}, so its cost cannot be estimated: known are "
            f"{', '.join(DEVICES)}"
        ) from None
    shape = shape_of(model)
    step = step_time(shape, batch, own)
    sequences = eval_items * (eval_samples + 1)
    waves = Batch(min(sequences, GENERATION_BATCH), 1, batch.prompt_tokens, batch.completion_tokens)
    generation = step_time(shape, waves, own).generate * ceil(sequences / GENERATION_BATCH)
    startup = (_CPU_STARTUP_S if kind == "CPU" else _GPU_STARTUP_S) + 4 * shape.parameters / _LOAD_BYTES_S
    return JobCost(startup_s=startup, step_s=step.total, eval_s=generation + 2.0)
