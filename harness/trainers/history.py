"""What is known of each prompt of the training set, for samplers and for the record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from harness.hooks.api import PromptHistory
from harness.statistics import GenerationBatch

SOLVED = 0.5
"""A prompt counts as solved while its last pass rate is at least this."""


class PromptHistories:
    """Histories by prompt index, updated with every generation batch."""

    def __init__(self, prompt_ids: Sequence[str]) -> None:
        """No prompt was visited."""
        self._ids = prompt_ids
        self._places: dict[str, int] | None = None
        self.by_index: dict[int, PromptHistory] = {}
        self._solved = 0
        self._rates = 0.0

    def add(self, batch: GenerationBatch) -> dict[str, float]:
        """Count a visit of every prompt of the batch. Without a verifier the weighted reward is its score.

        Returns:
            `prompts/visited` = prompts with a visit; `prompts/pass_rate` = mean of their last pass rates;
            `prompts/solved` = share of them whose last pass rate is at least SOLVED; `prompts/gained` and
            `prompts/lost` = share of the batch's revisited prompts that became solved, or are so no longer
            (left out where none is revisited).
        """
        scores = batch.components[batch.verifier] if batch.verifier is not None else batch.rewards
        size = batch.group_size
        gained = lost = again = 0
        for group, first in enumerate(range(0, len(batch.prompt_ids), size)):
            values = [0.0 if math.isnan(score) else score for score in scores[first : first + size]]
            rate = sum(values) / size
            advantage = sum(abs(value) for value in batch.advantages[first : first + size]) / size
            index = (
                batch.prompt_indices[group] if batch.prompt_indices else self._place(batch.prompt_ids[first])
            )
            old = self.by_index.get(index, PromptHistory(0, 0.0, 0.0, 0.0))
            was = old.visits > 0 and old.last_pass_rate >= SOLVED
            now = rate >= SOLVED
            again += old.visits > 0
            gained += old.visits > 0 and now and not was
            lost += was and not now
            self._solved += now - was
            self._rates += rate - old.last_pass_rate
            visits = old.visits + 1
            self.by_index[index] = PromptHistory(
                visits,
                old.pass_rate + (rate - old.pass_rate) / visits,
                rate,
                old.mean_abs_advantage + (advantage - old.mean_abs_advantage) / visits,
            )
        visited = len(self.by_index)
        row = {
            "prompts/visited": float(visited),
            "prompts/pass_rate": self._rates / visited,
            "prompts/solved": self._solved / visited,
        }
        return row | ({"prompts/gained": gained / again, "prompts/lost": lost / again} if again else {})

    def _place(self, prompt_id: str) -> int:
        if self._places is None:
            self._places = {one: place for place, one in enumerate(self._ids)}
        return self._places[prompt_id]

    def state_dict(self) -> dict[str, Any]:
        """The histories as plain values, by prompt id, with the place that the prompt had."""
        return {
            self._ids[index]: [
                known.visits,
                known.pass_rate,
                known.last_pass_rate,
                known.mean_abs_advantage,
                index,
            ]
            for index, known in self.by_index.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take histories back; prompts that are not in the training set are left out."""
        self.by_index = {}
        for prompt_id, (*values, index) in state.items():
            if not (index < len(self._ids) and self._ids[index] == prompt_id):
                try:
                    index = self._place(prompt_id)
                except KeyError:
                    continue
            self.by_index[index] = PromptHistory(*values)
        self._rates = sum(known.last_pass_rate for known in self.by_index.values())
        self._solved = sum(known.last_pass_rate >= SOLVED for known in self.by_index.values())
