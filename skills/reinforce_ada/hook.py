"""Reinforce-Ada: draws go on for prompts that have shown only one outcome; baselines from all draws."""

from __future__ import annotations

from statistics import fmean

from harness.hooks.api import Draw, RolloutBatch, RolloutInputs


class AdaptiveDraws:
    """Rounds of draws until a prompt has both outcomes; then a balanced group of G of them."""

    def __init__(self, rounds: int = 3) -> None:
        """Take the number of rounds of G draws a prompt may have.

        Raises:
            ValueError: it is less than 1.
        """
        if rounds < 1:
            raise ValueError(f"rounds = {rounds!r} is not allowed: it must be at least 1")
        self.rounds = rounds

    def draw(self, inputs: RolloutInputs) -> RolloutBatch:
        """P groups of G draws with the mean reward of all draws of their prompt as baseline."""
        size = inputs.group_size
        pools: list[list[tuple[Draw, float]]] = [[] for _ in inputs.rows_P]
        open_ = list(range(len(pools)))
        for _ in range(self.rounds):
            draws = inputs.generate([inputs.rows_P[place] for place in open_ for _ in range(size)])
            rewards = inputs.score(draws)
            for offset, place in enumerate(open_):
                part = slice(offset * size, (offset + 1) * size)
                pools[place] += list(zip(draws[part], rewards[part], strict=True))
            open_ = [place for place in open_ if _ties(pools[place])]
            if not open_:
                break
        chosen = [draw for pool in pools for draw in balanced(pool, size)]
        return RolloutBatch(chosen, baselines_P=[fmean(reward for _, reward in pool) for pool in pools])


def balanced(pool: list[tuple[Draw, float]], size: int) -> list[Draw]:
    """`size` draws, as many above the mean as not where there are enough, each side in its own order."""
    mean = fmean(reward for _, reward in pool)
    high = [draw for draw, reward in pool if reward > mean]
    low = [draw for draw, reward in pool if reward <= mean]
    take = min(len(high), max(size // 2, size - len(low)))
    return high[:take] + low[: size - take]


def _ties(pool: list[tuple[Draw, float]]) -> bool:
    rewards = [reward for _, reward in pool]
    return max(rewards) == min(rewards)
