"""Statistics of the tokens of a step at loss time, for metrics.jsonl. Frozen.

Axes: B rows of a micro-batch, T tokens; K tokens that count, of all micro-batches of a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from harness import processes

MAX_TOKENS = 200_000
"""Tokens kept of a step for quantiles; more are thinned out evenly."""
QUARTERS = 4


class LossStatistics:
    """Collects micro-batches; `row` gives the step's keys, over all processes, and begins the next step.

    ratio r = exp(new - old log-prob) where TRL has old log-probs, that is when a batch is used for more than
    one update: `ratio/p50`, `ratio/p98`, `ratio/max` are quantiles over tokens, `ratio/variance` the mean of
    (r - 1)^2, since E[r] = 1 on the old policy's samples.

    Gap d = sampler's - trainer's log-prob of a token, where the sampler's are known: `sampler/gap_mean` =
    mean |d|, `sampler/gap_p99` the 99th percentile of |d|, `sampler/correlation` Pearson's r of the two
    log-probs over tokens (left out where one of them does not vary).

    `entropy/q1` ... `entropy/q4`: mean entropy of the tokens in the first ... last quarter of their
    completion; token t of a completion of n tokens is in quarter floor(4 t / n) + 1, t from 0.
    """

    def __init__(self) -> None:
        """Nothing was seen."""
        self._begin()

    def _begin(self) -> None:
        self._ratios: list[np.ndarray] = []
        self._pairs: list[np.ndarray] = []
        self._entropy = np.zeros((2, QUARTERS))
        self._tokens = 0.0

    def add(
        self,
        logps_B_T: torch.Tensor,
        old_B_T: torch.Tensor | None,
        sampler_B_T: torch.Tensor | None,
        entropies_B_T: torch.Tensor | None,
        mask_B_T: torch.Tensor,
        fresh_B: torch.Tensor | None = None,
    ) -> float | None:
        """Take a micro-batch; return its mean |d|, or None without log-probs of the sampler.

        Rows that are not fresh are of another policy and no part of the gap.
        """
        counts_B_T = mask_B_T.bool()
        if entropies_B_T is not None:
            self._add_entropies(entropies_B_T, mask_B_T)
        if old_B_T is not None:
            self._ratios.append((logps_B_T - old_B_T)[counts_B_T].double().exp().cpu().numpy())
        if sampler_B_T is None:
            return None
        if fresh_B is not None:
            counts_B_T = counts_B_T & fresh_B.to(counts_B_T.device)[:, None]
        pairs_2_K = torch.stack([sampler_B_T[counts_B_T], logps_B_T[counts_B_T]]).double().cpu().numpy()
        pairs_2_K = pairs_2_K[:, np.isfinite(pairs_2_K).all(axis=0)]
        self._pairs.append(pairs_2_K)
        return float(np.abs(pairs_2_K[0] - pairs_2_K[1]).mean()) if pairs_2_K.size else None

    def _add_entropies(self, entropies_B_T: torch.Tensor, mask_B_T: torch.Tensor) -> None:
        mask_B_T = mask_B_T.to(entropies_B_T.dtype)
        place_B_T = mask_B_T.cumsum(1) - 1
        length_B_1 = mask_B_T.sum(1, keepdim=True).clamp(min=1)
        quarter_B_T = (QUARTERS * place_B_T / length_B_1).long().clamp(0, QUARTERS - 1).flatten()
        sums = torch.zeros(2, QUARTERS, dtype=entropies_B_T.dtype, device=entropies_B_T.device)
        sums[0].index_add_(0, quarter_B_T, (entropies_B_T * mask_B_T).flatten())
        sums[1].index_add_(0, quarter_B_T, mask_B_T.flatten())
        found = sums.double().cpu().numpy()
        self._entropy += found
        self._tokens += float(found[1].sum())

    def row(self) -> dict[str, float]:
        """The step's keys. Under several processes a collective: every process calls it."""
        parts = processes.gather(
            (_joined(self._ratios, 1), _joined(self._pairs, 2), self._entropy, self._tokens)
        )
        self._begin()
        found: dict[str, float] = {"tokens/trained": float(sum(part[3] for part in parts))}
        ratios_K = np.concatenate([part[0][0] for part in parts])
        pairs_2_K = np.concatenate([part[1] for part in parts], axis=1)
        if ratios_K.size:
            found |= ratio_metrics(ratios_K)
        if pairs_2_K.size:
            found |= gap_metrics(pairs_2_K[0], pairs_2_K[1])
        sums, counts = np.sum([part[2] for part in parts], axis=0)
        for place in range(QUARTERS):
            if counts[place]:
                found[f"entropy/q{place + 1}"] = float(sums[place] / counts[place])
        return found


def ratio_metrics(ratios_K: np.ndarray) -> dict[str, float]:
    """The keys `ratio/*` of importance ratios; see LossStatistics."""
    return {
        "ratio/p50": float(np.percentile(ratios_K, 50)),
        "ratio/p98": float(np.percentile(ratios_K, 98)),
        "ratio/max": float(ratios_K.max()),
        "ratio/variance": float(((ratios_K - 1) ** 2).mean()),
    }


def gap_metrics(sampler_K: np.ndarray, trainer_K: np.ndarray) -> dict[str, float]:
    """The keys `sampler/*` of two log-probs of the same tokens; see LossStatistics."""
    gap_K = np.abs(sampler_K - trainer_K)
    found = {"sampler/gap_mean": float(gap_K.mean()), "sampler/gap_p99": float(np.percentile(gap_K, 99))}
    if sampler_K.std() and trainer_K.std():
        found["sampler/correlation"] = float(np.corrcoef(sampler_K, trainer_K)[0, 1])
    return found


def _joined(parts: list[np.ndarray], rows: int) -> np.ndarray[Any, Any]:
    """Micro-batches side by side, thinned out evenly to MAX_TOKENS."""
    if not parts:
        return np.zeros((rows, 0))
    joined = np.concatenate([part.reshape(rows, -1) for part in parts], axis=1)
    return joined[:, :: -(-joined.shape[1] // MAX_TOKENS) or 1]
