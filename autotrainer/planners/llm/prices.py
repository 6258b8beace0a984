"""Prices: what a call can cost at most and what it did cost, in USD."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_A_TOKEN = 3.0
"""Estimate for budgets of text; for money one token a byte is the bound that cannot be too low."""
OVERHEAD_TOKENS = 64
"""Tokens that a chat template adds around the messages."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD a token; `known` is false where nobody gave a price and calls count as free (a local server)."""

    prompt: float
    completion: float
    known: bool = True

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """USD of so many tokens."""
        return self.prompt * prompt_tokens + self.completion * completion_tokens

    def at_most(self, text_bytes: int, max_tokens: int) -> float:
        """The most that a call can cost: a tokenizer of bytes makes at most one token a byte."""
        return self.cost(text_bytes + OVERHEAD_TOKENS, max_tokens)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has; rather too many than too few for English, code and numbers."""
    return int(len(text.encode()) / BYTES_A_TOKEN) + 1
