"""Kimi k1.5's length reward within a group."""

from __future__ import annotations

import torch

from harness.hooks.api import RewardInputs


class LengthReward:
    """Adds the component `length`: lambda for right answers, min(0, lambda) for wrong ones."""

    def __init__(self, weight: float = 0.2) -> None:
        """Take the component's weight."""
        self.adds = {"length": float(weight)}

    def components(self, inputs: RewardInputs) -> dict[str, torch.Tensor]:
        """The component `length`, of shape N, in [-0.5, 0.5]; 0 where a group has one length."""
        size = inputs.group_size
        lengths_N = torch.tensor([len(ids) for ids in inputs.completion_ids_N], dtype=torch.float32)
        lengths_P_G = lengths_N.view(-1, size)
        low_P_1 = lengths_P_G.amin(dim=1, keepdim=True)
        range_P_1 = lengths_P_G.amax(dim=1, keepdim=True) - low_P_1
        share_P_G = (lengths_P_G - low_P_1) / range_P_1.clamp(min=1.0)
        worth_P_G = torch.where(range_P_1 > 0, 0.5 - share_P_G, torch.zeros_like(share_P_G))
        right_P_G = inputs.components_N["accuracy"].view(-1, size) >= 1.0
        return {"length": torch.where(right_P_G, worth_P_G, worth_P_G.clamp(max=0.0)).flatten()}
