"""Statistics of one generation batch, for metrics.jsonl."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class GenerationBatch:
    """What was generated and how it scored: N rows, groups side by side; NaN = does not apply."""

    prompts: list[str]
    prompt_ids: list[str]
    completions: list[str]
    completion_ids: list[list[int]]
    stopped: list[bool]
    rewards: list[float]
    components: dict[str, list[float]]
    advantages: list[float]
    group_size: int
    verifier: str | None
    logp_means: list[float | None] = field(default_factory=list)


def batch_metrics(batch: GenerationBatch) -> dict[str, float]:
    """The recorder's keys that come from a generation batch."""
    rewards_P_G = np.asarray(batch.rewards, dtype=float).reshape(-1, batch.group_size)
    advantages = np.asarray(batch.advantages, dtype=float)
    lengths = np.asarray([len(ids) for ids in batch.completion_ids])
    row = {
        "groups/reward_variance": float(_nanmean(_group_variance(rewards_P_G))),
        "advantages/mean": float(advantages.mean()),
        "advantages/std": float(advantages.std()),
        "lengths/p50": float(np.percentile(lengths, 50)),
        "lengths/p90": float(np.percentile(lengths, 90)),
        "lengths/p99": float(np.percentile(lengths, 99)),
        "eos_rate": float(np.mean(batch.stopped)),
        "text/distinct_2": distinct(batch.completion_ids, 2),
        "text/repetition": repetition(batch.completion_ids, 3),
    }
    if batch.verifier is not None:
        scores_P_G = np.asarray(batch.components[batch.verifier], dtype=float).reshape(-1, batch.group_size)
        row |= group_shares(scores_P_G)
    return row


def group_shares(scores_P_G: np.ndarray) -> dict[str, float]:
    """Shares of groups that are all right (score 1), all wrong (0, or not to be scored), or neither."""
    right = np.nan_to_num(scores_P_G, nan=0.0) >= 1.0
    wrong = np.nan_to_num(scores_P_G, nan=0.0) <= 0.0
    all_right, all_wrong = right.all(axis=1), wrong.all(axis=1)
    return {
        "groups/all_correct": float(all_right.mean()),
        "groups/all_wrong": float(all_wrong.mean()),
        "groups/mixed": float((~all_right & ~all_wrong).mean()),
    }


def distinct(completions: Sequence[Sequence[int]], n: int) -> float:
    """Different n-grams of tokens over all n-grams, over the batch; 1 where there are none."""
    grams = [tuple(ids[place : place + n]) for ids in completions for place in range(len(ids) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


def repetition(completions: Sequence[Sequence[int]], n: int) -> float:
    """Mean share of a completion's n-grams that occurred in it before; 0 for one shorter than n."""
    shares = []
    for ids in completions:
        grams = [tuple(ids[place : place + n]) for place in range(len(ids) - n + 1)]
        shares.append(1.0 - len(set(grams)) / len(grams) if grams else 0.0)
    return float(np.mean(shares)) if shares else 0.0


def nonfinite_components(components: Mapping[str, Sequence[float]]) -> int:
    """Infinite values among reward components; NaN means that a component does not apply."""
    return sum(math.isinf(value) for values in components.values() for value in values)


def _group_variance(values_P_G: np.ndarray) -> np.ndarray:
    present = np.isfinite(values_P_G)
    count = np.maximum(present.sum(axis=1), 1)
    filled = np.where(present, values_P_G, 0.0)
    mean = filled.sum(axis=1) / count
    squares = np.where(present, (filled - mean[:, None]) ** 2, 0.0)
    return np.asarray(squares.sum(axis=1) / count)


def _nanmean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
