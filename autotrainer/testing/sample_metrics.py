"""Invented metrics.jsonl rows of the sample study, under TRL's and the recorder's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from pathlib import Path
from random import Random
from typing import Any

from autotrainer.files import SCHEMA_VERSION, dumps, write_text
from autotrainer.recipe.recipe import Recipe

PROBE_EVERY = 6


def sample_rows(
    name: str, recipe: Recipe, steps: int, *, level: tuple[float, float], collapse: int | None, started: float
) -> list[dict[str, Any]]:
    """`steps` rows whose reward goes from one level to the other, or to nothing from step `collapse` on."""
    rng = Random(f"sample {name}")
    rows: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        stage, within = _stage(recipe, step)
        grown = 1 - exp(-2.5 * step / max(1, recipe.steps))
        lost = collapse is not None and step >= collapse
        reward = 0.01 if lost else level[0] + (level[1] - level[0]) * grown / (1 - exp(-2.5))
        row = _row(rng, reward, grown, lost)
        rate = float(recipe.stages[stage].knobs["learning_rate"])
        warmup = int(recipe.stages[stage].knobs.get("warmup_steps", 0))
        row |= {
            "schema_version": SCHEMA_VERSION,
            "step": step,
            "stage": stage,
            "wall_s": 6 + 0.2 * step,
            "time": started + 6 + 0.2 * step,
            "learning_rate": rate * min(1.0, within / max(1, warmup)),
            "num_tokens": 700.0 * step,
            "tokens/total": 700 * step,
            "epoch": step / 512,
        }
        if step % PROBE_EVERY == 0 or step == recipe.steps:
            row |= {
                "probe/accuracy": round(max(0.0, reward + rng.gauss(0, 0.012)), 4),
                "kl_start": 0.12 * grown * (8 if lost else 1),
                "weights/changed_share": 0.4 * grown,
            }
        rows.append(row)
    return rows


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as a `.jsonl` file."""
    write_text(path, "".join(dumps(row) + "\n" for row in rows))


def _stage(recipe: Recipe, step: int) -> tuple[int, int]:
    """Place of the stage that a step belongs to, and the step within it."""
    for place, stage in enumerate(recipe.stages):
        if step <= stage.steps:
            return place, step
        step -= stage.steps
    return len(recipe.stages) - 1, step


def _row(rng: Random, reward: float, grown: float, lost: bool) -> dict[str, Any]:
    noisy = max(0.0, reward + rng.gauss(0, 0.004 if lost else 0.04))
    tied = 0.97 if lost else 0.15 + 0.3 * grown
    return {
        "loss": rng.gauss(0, 1e-8),
        "grad_norm": 0.2 if lost else 2.4 + rng.gauss(0, 0.5),
        "reward": noisy,
        "reward_std": 0.02 if lost else 0.46,
        "rewards/verifier/mean": noisy,
        "rewards/verifier/std": 0.46,
        "frac_reward_zero_std": tied,
        "entropy": 0.05 if lost else max(0.1, 0.52 - 0.2 * grown + rng.gauss(0, 0.03)),
        "completions/mean_length": 3.1,
        "completions/min_length": 2.0,
        "completions/max_length": 8.0,
        "completions/clipped_ratio": 0.02,
        "clip_ratio/low_mean": 0.0,
        "clip_ratio/high_mean": 0.0,
        "clip_ratio/region_mean": 0.0,
        "step_time": 0.2,
        "groups/mixed": 1 - tied,
        "groups/all_correct": tied / 2,
        "groups/all_wrong": tied / 2,
        "groups/reward_variance": 0.02 if lost else 0.16,
        "advantages/mean": 0.0,
        "advantages/std": 0.9,
        "nonfinite": 0,
        "lengths/p50": 3.0,
        "lengths/p90": 4.0,
        "lengths/p99": 6.0,
        "eos_rate": 0.98,
        "time/generate_s": 0.09,
        "time/reward_s": 0.01,
        "time/train_s": 0.1,
        "memory/peak_gib": 0.9,
        "text/distinct_2": 0.4,
        "text/repetition": 0.05,
    }
