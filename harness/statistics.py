"""Statistics of one generation batch, for metrics.jsonl."""

from __future__ import annotations

import itertools
import math
import re
import zlib
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
    prompt_indices: list[int] = field(default_factory=list)
    """Index in the training set, of each group; empty where it is not known."""
    masks: list[list[int]] = field(default_factory=list)
    """1 where a token counts in the loss; empty where all do."""
    tags: list[str] = field(default_factory=list)
    sampler_logp_means: list[float | None] = field(default_factory=list)
    parsed: list[bool] = field(default_factory=list)
    """Whether the verifier found an answer at all; empty where the task cannot say."""
    second: list[float] = field(default_factory=list)
    """Scores of the task's second verifier; empty where it has none."""


def batch_metrics(batch: GenerationBatch) -> dict[str, float]:
    """The recorder's keys that come from a generation batch of N completions.

    groups/reward_variance: mean over groups of mean (r - mean r)^2; NaN rewards are left out.
    advantages/mean, /std: mean and population standard deviation over completions.
    advantages/share/<tag>: sum of |A| over the completions of a tag, over that of all.
    lengths/p50, p90, p99: percentiles of the number of tokens, end token included.
    eos_rate: share of completions that ended by themselves.
    text/distinct_2, text/repetition: see `distinct` and `repetition`.
    text/compression, text/script_switches: see `compression` and `script_switches`.
    lengths/correlation/<component>: Pearson's r of length and a reward component, `lengths/correlation` that
        of the weighted reward; left out where one of the two does not vary.
    parse_rate: share of completions in which the verifier found an answer.
    verifier/disagreement: share of completions that the second verifier puts on the other side of 0.5.
    tokens/generated: completion tokens of the batch.
    """
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
        "text/compression": compression(batch.completions),
        "text/script_switches": script_switches(batch.completions),
        "tokens/generated": float(lengths.sum()),
    }
    for name, values in {"": batch.rewards, **batch.components}.items():
        if (found := _correlation(lengths, np.asarray(values, dtype=float))) is not None:
            row[f"lengths/correlation/{name}".rstrip("/")] = found
    if batch.tags:
        row |= tag_shares(batch.tags, advantages)
    if batch.parsed:
        row["parse_rate"] = float(np.mean(batch.parsed))
    if batch.verifier is not None:
        scores_P_G = np.asarray(batch.components[batch.verifier], dtype=float).reshape(-1, batch.group_size)
        row |= group_shares(scores_P_G)
        if batch.second:
            row["verifier/disagreement"] = disagreement(scores_P_G.ravel(), np.asarray(batch.second))
    return row


def tag_shares(tags: Sequence[str], advantages_N: np.ndarray) -> dict[str, float]:
    """advantages/share/<tag>: the tag's sum of |A| over that of all; 0 where all advantages are 0."""
    total = float(np.abs(advantages_N).sum())
    return {
        f"advantages/share/{tag}": float(np.abs(advantages_N[np.asarray(tags) == tag]).sum()) / total
        if total
        else 0.0
        for tag in sorted(set(tags))
        if tag
    }


def disagreement(first_N: np.ndarray, second_N: np.ndarray) -> float:
    """Share of completions on which two verifiers differ, at 0.5, of those that both can score; 0 if none."""
    both = np.isfinite(first_N) & np.isfinite(second_N)
    return float(np.mean((first_N[both] >= 0.5) != (second_N[both] >= 0.5))) if both.any() else 0.0


def compression(completions: Sequence[str]) -> float:
    """Bytes of the batch's completions, one a line, after zlib (level 6) over those before.

    Falls when completions repeat themselves or each other; for batches of one kind only, since short texts
    compress badly.
    """
    content = "\n".join(completions).encode(errors="replace")
    return len(zlib.compress(content, 6)) / len(content) if content else 1.0


def script_switches(completions: Sequence[str]) -> float:
    """Mean number of changes of script (Latin, Cyrillic, Arabic, CJK, ...) between letters of a completion.

    A model that drifts from one language to another in its reasoning shows here first; languages of one
    script are not told apart. Letters of a script unknown here count as none.
    """
    if all(text.isascii() for text in completions):
        return 0.0
    return float(np.mean([_switches(text) for text in completions]))


_SCRIPTS = tuple(
    re.compile(pattern)
    for pattern in (
        "[A-Za-z\u00c0-\u024f]",
        "[\u0370-\u03ff]",
        "[\u0400-\u052f]",
        "[\u0590-\u05ff]",
        "[\u0600-\u06ff]",
        "[\u0900-\u097f]",
        "[\u0e00-\u0e7f]",
        "[\u3040-\u30ff\u3400-\u9fff]",
        "[\uac00-\ud7af]",
    )
)


def _switches(text: str) -> int:
    if text.isascii():
        return 0
    scripts = [
        number for letter in text for number, pattern in enumerate(_SCRIPTS) if pattern.fullmatch(letter)
    ]
    return sum(one != other for one, other in itertools.pairwise(scripts))


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


def _correlation(one_N: np.ndarray, other_N: np.ndarray) -> float | None:
    both = np.isfinite(one_N) & np.isfinite(other_N)
    one_N, other_N = one_N[both], other_N[both]
    if len(one_N) < 2 or not one_N.std() or not other_N.std():
        return None
    return float(np.corrcoef(one_N, other_N)[0, 1])


def _nanmean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
