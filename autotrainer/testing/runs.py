"""Public hand-made runs: rows from functions of the step, with a repeatable wobble."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from autotrainer.contract.metrics import Metrics

Key = Callable[[int], float]


def run(steps: int = 60, noise: float = 0.02, seed: int = 0, **keys: Key | float) -> Metrics:
    """A healthy run (reward 0.35 to 0.6, entropy 0.6) of `steps` rows.

    `keys` replaces or adds series, `__` stands for `/`.
    """
    rng = Random(seed)
    series: dict[str, Key | float] = {
        "reward": lambda step: 0.35 + 0.25 * step / steps,
        "frac_reward_zero_std": 0.1,
        "entropy": 0.6,
        "grad_norm": 0.5,
        "loss": 0.01,
        "reward_std": 0.4,
        "completions__clipped_ratio": 0.02,
        **keys,
    }
    rows = []
    for step in range(1, steps + 1):
        wobble = rng.uniform(-noise, noise)
        row: dict[str, float] = {"step": step}
        for key, value in series.items():
            number = value(step) if callable(value) else value
            row[key.replace("__", "/")] = (
                max(0.0, number + wobble) if key == "reward" and number > 0 else number
            )
        rows.append(row)
    return Metrics(rows)


def collapsed(onset: int = 10, steps: int = 60) -> Metrics:
    """A run that loses everything at `onset`: reward 0, no differences, all truncated, entropy gone."""

    def after(step: int, healthy: float, lost: float) -> float:
        return healthy if step < onset else lost

    return run(
        steps,
        reward=lambda s: after(s, 0.35, 0.0),
        frac_reward_zero_std=lambda s: after(s, 0.1, 1.0),
        entropy=lambda s: after(s, 0.6, 0.001),
        grad_norm=lambda s: after(s, 0.5, 0.0),
        completions__clipped_ratio=lambda s: after(s, 0.02, 1.0),
    )
