"""Negative completions that the policy has left behind are masked."""

from __future__ import annotations

import torch

from harness.hooks.api import LossInputs


class OffPolicyMask:
    """Sets advantages to 0 for negative completions that are too far from the policy.

    Far means that the mean of old - new log-probs over the tokens that count is above `bound`
    (DeepSeek-V3.2, section 3.1).
    """

    def __init__(self, bound: float = 0.5) -> None:
        """Take the bound in nats a token.

        Raises:
            ValueError: it is not positive.
        """
        if bound <= 0:
            raise ValueError(f"bound = {bound!r} is not allowed: it must be above 0")
        self.bound = bound

    def tokens(self, inputs: LossInputs) -> torch.Tensor:
        """advantages_B_T, with the rows that are masked at 0."""
        given = inputs.advantages
        given_B_T = given if given.dim() == 2 else given[:, None].expand_as(inputs.logps_B_T)
        mask_B_T = inputs.mask_B_T.to(inputs.logps_B_T.dtype)
        gap_B_T = (inputs.old_logps_B_T - inputs.logps_B_T.detach()) * mask_B_T
        gap_B = gap_B_T.sum(dim=1) / mask_B_T.sum(dim=1).clamp(min=1.0)
        left_B_1 = (gap_B > self.bound)[:, None]
        return torch.where(left_B_1 & (given_B_T < 0), torch.zeros_like(given_B_T), given_B_T)
