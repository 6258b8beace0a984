"""VCRL: prompts by the variance of their groups."""

from __future__ import annotations

import random
from collections.abc import Sequence

from harness.hooks.api import PromptHistory, SamplerInputs


class VarianceSampler:
    """Replaces known prompts without variance by known prompts that have some."""

    def __init__(self, threshold: float = 0.3, share: float = 0.5) -> None:
        """Take the lowest p that a known prompt may have, and the largest share of a batch to replace.

        Raises:
            ValueError: one of them is no share.
        """
        for name, value in (("threshold", threshold), ("share", share)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} = {value!r} is not allowed: it must be from 0 to 1")
        self.threshold, self.share = threshold, share

    def choose(self, inputs: SamplerInputs) -> Sequence[int]:
        """P prompt indices; drawn without a prompt coming twice by this hook."""
        chosen = list(inputs.proposed_P)
        worth = {index: variance(seen) for index, seen in inputs.history.items()}
        poor = [place for place, index in enumerate(chosen) if worth.get(index, 1.0) < self.threshold]
        taken = set(chosen)
        bank = [index for index, p in worth.items() if p >= self.threshold and index not in taken]
        rng = random.Random(inputs.seed)
        limit = min(len(poor), len(bank), int(self.share * len(chosen)))
        for place, index in zip(poor, _weighted(bank, worth, limit, rng), strict=False):
            chosen[place] = index
        return chosen


def variance(seen: PromptHistory) -> float:
    """4 p (1 - p) of the last visit's pass rate p: 1 at half solved, 0 at none and all."""
    rate = min(1.0, max(0.0, seen.last_pass_rate))
    return 4.0 * rate * (1.0 - rate)


def _weighted(bank: list[int], worth: dict[int, float], count: int, rng: random.Random) -> list[int]:
    """`count` of the bank without replacement, likelier the larger their worth (Efraimidis and Spirakis)."""
    keyed = sorted(bank, key=lambda index: -(rng.random() ** (1.0 / worth[index])))
    return keyed[:count]
