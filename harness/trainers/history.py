"""What is known of each prompt of the training set, for samplers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from harness.hooks.api import PromptHistory
from harness.statistics import GenerationBatch


class PromptHistories:
    """Histories by prompt index, updated with every generation batch."""

    def __init__(self, prompt_ids: Sequence[str]) -> None:
        """No prompt was visited."""
        self._index = {prompt_id: place for place, prompt_id in enumerate(prompt_ids)}
        self.by_index: dict[int, PromptHistory] = {}

    def add(self, batch: GenerationBatch) -> None:
        """Count a visit of every prompt of the batch. Without a verifier the weighted reward is its score."""
        scores = batch.components[batch.verifier] if batch.verifier is not None else batch.rewards
        size = batch.group_size
        for first in range(0, len(batch.prompt_ids), size):
            group = [0.0 if math.isnan(score) else score for score in scores[first : first + size]]
            rate = sum(group) / size
            advantage = sum(abs(value) for value in batch.advantages[first : first + size]) / size
            index = self._index[batch.prompt_ids[first]]
            old = self.by_index.get(index, PromptHistory(0, 0.0, 0.0, 0.0))
            visits = old.visits + 1
            self.by_index[index] = PromptHistory(
                visits,
                old.pass_rate + (rate - old.pass_rate) / visits,
                rate,
                old.mean_abs_advantage + (advantage - old.mean_abs_advantage) / visits,
            )

    def state_dict(self) -> dict[str, Any]:
        """The histories as plain values, by prompt id."""
        ids = {place: prompt_id for prompt_id, place in self._index.items()}
        return {
            ids[index]: [known.visits, known.pass_rate, known.last_pass_rate, known.mean_abs_advantage]
            for index, known in self.by_index.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take histories back; prompts that are not in the training set are left out."""
        self.by_index = {
            self._index[prompt_id]: PromptHistory(*values)
            for prompt_id, values in state.items()
            if prompt_id in self._index
        }
