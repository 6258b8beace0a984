"""DAPO's dynamic sampling: groups that tie are dropped and drawn again with other prompts."""

from __future__ import annotations

from harness.hooks.api import Draw, PromptRow, RolloutBatch, RolloutInputs


class DropAndRefill:
    """Draws until P groups vary, or the rounds are used up."""

    def __init__(self, rounds: int = 3) -> None:
        """Take the number of draws of a batch, the first included.

        Raises:
            ValueError: it is less than 1.
        """
        if rounds < 1:
            raise ValueError(f"rounds = {rounds!r} is not allowed: it must be at least 1")
        self.rounds = rounds

    def draw(self, inputs: RolloutInputs) -> RolloutBatch:
        """P groups of G draws; varying ones first, in the order in which they were drawn."""
        wanted = len(inputs.rows_P)
        varied: list[list[Draw]] = []
        tied: list[list[Draw]] = []
        rows = list(inputs.rows_P)
        for round_ in range(self.rounds):
            for group, varies in _groups(inputs, rows):
                (varied if varies else tied).append(group)
            missing = wanted - len(varied)
            if missing <= 0 or round_ + 1 == self.rounds:
                break
            rows = inputs.more(missing)
            if not rows:
                break
        chosen = (varied + tied)[:wanted]
        return RolloutBatch([draw for group in chosen for draw in group])


def _groups(inputs: RolloutInputs, rows: list[PromptRow]) -> list[tuple[list[Draw], bool]]:
    """The groups of some prompts and whether their rewards differ."""
    size = inputs.group_size
    draws = inputs.generate([row for row in rows for _ in range(size)])
    rewards = inputs.score(draws)
    found = []
    for first in range(0, len(draws), size):
        own = rewards[first : first + size]
        found.append((draws[first : first + size], max(own) > min(own)))
    return found
