"""AEnt: an entropy bonus over the likely part of the vocabulary, its coefficient held by a band."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from harness.hooks.api import LossInputs, LossTerm, Need


class ClampedEntropy:
    """Adds -c * H, H being the entropy over the tokens that are kept, averaged over tokens that count."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.LOGITS})

    def __init__(
        self,
        clamp: float = 0.3,
        coefficient: float = 2e-4,
        low: float = 0.1,
        high: float = 1.0,
        rate: float = 1.1,
        ceiling: float = 0.01,
    ) -> None:
        """Take the share of logits to remove, the first coefficient, the band, and the step of c a batch.

        Raises:
            ValueError: the share is not in [0, 1), the band is empty, or the rate is not above 1.
        """
        if not 0 <= clamp < 1:
            raise ValueError(f"clamp = {clamp!r} is not allowed: it must be at least 0 and below 1")
        if not 0 <= low < high:
            raise ValueError(f"low = {low!r}, high = {high!r} are not allowed: 0 <= low < high")
        if rate <= 1:
            raise ValueError(f"rate = {rate!r} is not allowed: it must be above 1")
        self.clamp, self.low, self.high, self.rate, self.ceiling = clamp, low, high, rate, ceiling
        self.coefficient = coefficient

    def term(self, inputs: LossInputs) -> LossTerm:
        """The bonus of this micro-batch, and what it saw."""
        assert inputs.logits_B_T_V is not None
        mask_B_T = inputs.mask_B_T.to(inputs.logits_B_T_V.dtype)
        entropy_B_T = clamped_entropy(inputs.logits_B_T_V, self.clamp)
        mean = (entropy_B_T * mask_B_T).sum() / mask_B_T.sum().clamp(min=1.0)
        value = -self.coefficient * mean / inputs.accumulation
        seen = float(mean.detach())
        metrics = {"aent/entropy": seen, "aent/coefficient": self.coefficient}
        if seen < self.low:
            self.coefficient = min(self.ceiling, self.coefficient * self.rate)
        elif seen > self.high:
            self.coefficient /= self.rate
        return LossTerm(value, metrics)

    def state_dict(self) -> dict[str, Any]:
        """The coefficient."""
        return {"coefficient": self.coefficient}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with it."""
        self.coefficient = float(state["coefficient"])


def clamped_entropy(logits_B_T_V: torch.Tensor, clamp: float) -> torch.Tensor:
    """Entropy_B_T of the policy renormalised over all but the lowest share `clamp` of its logits, in nats."""
    size = logits_B_T_V.size(-1)
    kept = max(1, size - int(clamp * size))
    top_B_T_K = logits_B_T_V.topk(kept, dim=-1).values.float()
    logps_B_T_K = torch.log_softmax(top_B_T_K, dim=-1)
    return -(logps_B_T_K.exp() * logps_B_T_K).sum(dim=-1)
