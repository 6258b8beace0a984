"""EvidenceContext: where a skill was tried, and how much that says about another place."""

from __future__ import annotations

from dataclasses import dataclass

SMALL_PARAMETERS = 100e6
"""Below this size an effect says nothing about the size of the effect above it."""
_BANDS = ((SMALL_PARAMETERS, "tiny"), (1e9, "small"), (5e9, "medium"), (20e9, "large"))


@dataclass(frozen=True, slots=True)
class EvidenceContext:
    """Task family, model-size band, weights mode (`full` or `lora`) and the finding that was treated."""

    task: str
    band: str
    weights: str
    finding: str


def band_of(parameters: float) -> str:
    """The size band of a model: tiny (under 100 M), small (1 B), medium (5 B), large (20 B), huge."""
    return next((name for limit, name in _BANDS if parameters < limit), "huge")


def weight(seen: EvidenceContext, asked: EvidenceContext) -> float:
    """How much evidence from one place counts in another, from 0 to 1.

    Nothing crosses the 100 M line, in either direction: learning rates, lengths and effect sizes do not
    transfer. LoRA and full weights count a quarter for each other, other tasks and bands a half each.
    """
    if (seen.band == "tiny") != (asked.band == "tiny"):
        return 0.0
    shared = 1.0 if seen.task == asked.task else 0.5
    shared *= 1.0 if seen.band == asked.band else 0.5
    shared *= 1.0 if seen.weights == asked.weights else 0.25
    return shared * (1.0 if seen.finding == asked.finding else 0.5)
