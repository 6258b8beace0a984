"""What is put into a job to make it ill; copied into its workspace as hooks/injected.py."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from harness.hooks.api import GroupInputs, LossInputs, LossTerm, RewardInputs, StepInputs


class ConstantReward:
    """A part of the reward that is the same for every completion, whatever it says."""

    def __init__(self, value: float = 0.5, weight: float = 1.0) -> None:
        """Take the constant and its weight."""
        self.adds = {"broken": weight}
        self._value = value

    def components(self, inputs: RewardInputs) -> dict[str, torch.Tensor]:
        """The constant, of shape N."""
        return {"broken": torch.full((len(inputs.completions_N),), self._value)}


class LengthReward:
    """Pays for length (or, with a negative weight, against it) and nothing else."""

    def __init__(self, weight: float = 1.0) -> None:
        """Take the weight."""
        self.adds = {"length": weight}

    def components(self, inputs: RewardInputs) -> dict[str, torch.Tensor]:
        """Tokens by the cap, of shape N."""
        lengths = [len(ids) / inputs.max_completion_length for ids in inputs.completion_ids_N]
        return {"length": torch.tensor(lengths, dtype=torch.float32)}


class DigitReward:
    """A proxy that can be gamed: pays for a digit in the answer."""

    def __init__(self, digit: str = "1", weight: float = 1.0) -> None:
        """Take the digit and the weight."""
        self.adds = {"proxy": weight}
        self._digit = digit

    def components(self, inputs: RewardInputs) -> dict[str, torch.Tensor]:
        """Share of the text that is the digit, of shape N."""
        shares = [text.count(self._digit) / max(1, len(text)) for text in inputs.completions_N]
        return {"proxy": torch.tensor(shares, dtype=torch.float32)}


class FormatReward:
    """An easy part that dominates: pays for short answers that end, five times the task's weight."""

    def __init__(self, weight: float = 5.0) -> None:
        """Take the weight."""
        self.adds = {"format": weight}

    def components(self, inputs: RewardInputs) -> dict[str, torch.Tensor]:
        """1 where an answer has one character, of shape N."""
        return {"format": torch.tensor([float(len(text.strip()) == 1) for text in inputs.completions_N])}


class NoGradient:
    """Advantages of zero in spite of rewards that differ."""

    def group(self, inputs: GroupInputs) -> torch.Tensor:
        """Zeros, of shape P, G."""
        return torch.zeros_like(inputs.advantages_P_G)


class SignFlip:
    """Advantages with the wrong sign."""

    def group(self, inputs: GroupInputs) -> torch.Tensor:
        """The negative of what comes in."""
        return -inputs.advantages_P_G


class NanLoss:
    """A loss that is not a number from a step on."""

    def __init__(self, step: int = 20) -> None:
        """Take the step."""
        self._step = step

    def term(self, inputs: LossInputs) -> LossTerm:
        """Zero before, NaN after."""
        value = float("nan") if inputs.step >= self._step else 0.0
        return LossTerm(inputs.logps_B_T.sum() * 0.0 + value, {})


class EntropyPush:
    """Rewards entropy without a limit."""

    def __init__(self, coefficient: float = 0.3) -> None:
        """Take the coefficient."""
        self._coefficient = coefficient

    def term(self, inputs: LossInputs) -> LossTerm:
        """Minus the mean entropy of tokens that count, times the coefficient."""
        mask = inputs.mask_B_T.to(inputs.entropies_B_T.dtype)
        mean = (inputs.entropies_B_T * mask).sum() / mask.sum().clamp(min=1.0)
        return LossTerm(-self._coefficient * mean / inputs.accumulation, {})


class EntropyKill(EntropyPush):
    """Punishes entropy: the policy freezes."""

    def __init__(self, coefficient: float = -1.0) -> None:
        """Take a negative coefficient."""
        super().__init__(coefficient)


class RateJump:
    """The learning rate jumps at a step."""

    def __init__(self, step: int = 20, rate: float = 3e-3) -> None:
        """Take step and rate."""
        self._step, self._rate = step, rate

    def after_step(self, inputs: StepInputs) -> Mapping[str, float]:
        """The new rate, once."""
        return {"learning_rate": self._rate} if inputs.stage_step == self._step else {}
