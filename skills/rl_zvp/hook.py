"""RL-ZVP: advantages for groups that tie, by verdict and token entropy."""

from __future__ import annotations

import torch

from harness.hooks.api import GroupInputs, HookError, LossInputs


class ZeroVariance:
    """Tied groups get +scale * H a token where all are right, -scale * (max H - H) where all are wrong.

    H is a token's entropy, max H the largest of its completion. Groups that do not tie, or tie at a partial
    score, keep their advantages bit for bit. `group` remembers the verdicts of a generation batch for
    `tokens`, so that groups may be split over micro-batches.
    """

    def __init__(self, scale: float = 0.1) -> None:
        """Take the advantage of a token with an entropy of 1 nat.

        Raises:
            ValueError: the scale is not positive.
        """
        if scale <= 0:
            raise ValueError(f"scale = {scale!r} is not allowed: it must be above 0")
        self.scale = scale
        self._verdicts_P: torch.Tensor | None = None

    def group(self, inputs: GroupInputs) -> torch.Tensor:
        """advantages_P_G as they are; 1, -1 or 0 is kept for each prompt."""
        accuracy_P_G = inputs.components_P_G["accuracy"]
        tied_P = inputs.rewards_P_G.amax(dim=1) == inputs.rewards_P_G.amin(dim=1)
        right_P, wrong_P = (accuracy_P_G == 1).all(dim=1), (accuracy_P_G == 0).all(dim=1)
        self._verdicts_P = (right_P.float() - wrong_P.float()) * tied_P
        return inputs.advantages_P_G

    def tokens(self, inputs: LossInputs) -> torch.Tensor:
        """advantages_B_T with the rows of tied groups shaped."""
        if self._verdicts_P is None:
            raise HookError("rl_zvp: advantages a token were asked for before any batch was scored")
        given = inputs.advantages
        given_B_T = given if given.dim() == 2 else given[:, None].expand_as(inputs.entropies_B_T)
        mask_B_T = inputs.mask_B_T.to(inputs.entropies_B_T.dtype)
        entropies_B_T = inputs.entropies_B_T.detach() * mask_B_T
        verdict_B_1 = self._verdicts_P.to(inputs.group_B.device)[inputs.group_B.long()][:, None]
        rest_B_T = (entropies_B_T.amax(dim=1, keepdim=True) - entropies_B_T) * mask_B_T
        shaped_B_T = self.scale * torch.where(verdict_B_1 > 0, entropies_B_T, -rest_B_T)
        return torch.where(verdict_B_1 != 0, shaped_B_T, given_B_T)
