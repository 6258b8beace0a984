"""DAPO's soft overlong penalty as a reward component."""

from __future__ import annotations

import torch

from harness.hooks.api import RewardInputs


class SoftOverlong:
    """0 up to a margin before the cap, falling linearly to -1 at the cap."""

    def __init__(self, weight: float = 0.5, margin: float = 0.2) -> None:
        """Take the component's weight and the margin as a share of the cap.

        Raises:
            ValueError: the margin is not a share.
        """
        if not 0 < margin <= 1:
            raise ValueError(f"margin = {margin!r} is not allowed: it must be above 0 and at most 1")
        self.adds = {"overlong": float(weight)}
        self.margin = margin

    def components(self, inputs: RewardInputs) -> dict[str, torch.Tensor]:
        """The component `overlong`, of shape N, in [-1, 0]."""
        cap = inputs.max_completion_length
        margin = max(1.0, self.margin * cap)
        lengths_N = torch.tensor([len(ids) for ids in inputs.completion_ids_N], dtype=torch.float32)
        return {"overlong": -((lengths_N - (cap - margin)) / margin).clamp(0.0, 1.0)}
