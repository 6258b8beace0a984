"""A rollout function that samples with log-probs, on purpose otherwise than the trainer computes.

What a sampling engine and a trainer disagree on is measured without vLLM: with `kind` "none" it samples as
TRL does; the other kinds inject a mismatch, for tests of what is meant to catch it (`sampler/gap_mean`, the
check before the first update, corrections by importance weights).
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, ClassVar

import torch

from harness.hooks.api import HookError, Need, RolloutBatch, RolloutInputs

KINDS = ("none", "dtype", "temperature", "stale")


class SamplerMismatch:
    """Draws one group a prompt, with the sampler's own log-probs.

    dtype: the sampler's weights and arithmetic are bfloat16.
    temperature: it samples at `amount` times the trainer's temperature, and its log-probs are at that one.
    stale: it samples with the weights of `amount` generation batches ago; until then with noise of standard
        deviation 0.1 on every weight, as if its weights had never been synchronised.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.SAMPLER_LOGPS})

    def __init__(self, kind: str = "none", amount: float = 1.0) -> None:
        """Take the kind of mismatch and its size.

        Raises:
            HookError: the kind is unknown, or the amount is not above 0.
        """
        if kind not in KINDS or amount <= 0:
            raise HookError(
                f"kind = {kind!r} must be one of {', '.join(KINDS)}, and amount = {amount} above 0"
            )
        self._kind, self._amount = kind, amount
        self._old: deque[dict[str, torch.Tensor]] = deque(maxlen=max(1, round(amount)))

    def draw(self, inputs: RolloutInputs) -> RolloutBatch:
        """P groups of G draws."""
        rows = [row for row in inputs.rows_P for _ in range(inputs.group_size)]
        if self._kind == "temperature":
            return RolloutBatch(inputs.generate(rows, temperature=inputs.temperature * self._amount))
        return RolloutBatch(inputs.generate(rows, model=self._sampler(inputs.policy)))

    def _sampler(self, policy: Any) -> Any:
        if self._kind == "none":
            return None
        model = copy.deepcopy(policy)
        for part in model.modules():
            # The trainer's patched forward would go on with the original's weights.
            part.__dict__.pop("forward", None)
        if self._kind == "dtype":
            return model.to(torch.bfloat16)
        now = {name: value.detach().clone() for name, value in policy.state_dict().items()}
        if len(self._old) == self._old.maxlen:
            model.load_state_dict(self._old[0])
        else:
            generator = torch.Generator().manual_seed(0)
            with torch.no_grad():
                for value in model.parameters():
                    value += 0.1 * torch.randn(value.shape, generator=generator).to(value)
        self._old.append(now)
        return model
