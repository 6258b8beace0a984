"""Log-probs of the tokens that TRL's own generation samples, as it samples them. Frozen.

TRL has log-probs of the sampling engine with vLLM only. Here a forward hook on the model keeps each step's
distribution until the next step shows which token was drawn; no random number and no token changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


class LogpCapture:
    """Collects log softmax(logits / temperature)[token] for each sampled token of a batch.

    It is the log-prob under the whole distribution, as TRL's loss has it: top-k, top-p and other warpers are
    left out on both sides.
    """

    def __init__(self, temperature: float) -> None:
        """Take the temperature that is sampled at."""
        self._temperature = temperature
        self._last_B_V: torch.Tensor | None = None
        self._steps: list[torch.Tensor] = []

    @contextmanager
    def on(self, model: Any) -> Iterator[None]:
        """Listen to a model while it generates."""
        handle = model.register_forward_hook(self._listen, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def _listen(self, module: Any, arguments: Any, keywords: dict[str, Any], output: Any) -> None:
        ids_B_L = keywords["input_ids"] if "input_ids" in keywords else arguments[0]
        if self._last_B_V is not None:
            self._steps.append(self._last_B_V.gather(1, ids_B_L[:, -1:])[:, 0])
        self._last_B_V = torch.log_softmax(output.logits[:, -1].float() / self._temperature, dim=-1)

    def of(self, completion_ids: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probs of completions, which end at their end token or at the cap.

        Raises:
            RuntimeError: the model did not generate step by step.
        """
        longest = max(len(ids) for ids in completion_ids)
        if self._last_B_V is None or len(self._steps) < longest - 1:
            raise RuntimeError(f"{len(self._steps) + 1} steps were seen for completions of {longest} tokens")
        if len(self._steps) < longest:
            last_B = torch.tensor([ids[-1] for ids in completion_ids], device=self._last_B_V.device)
            self._steps.append(self._last_B_V.gather(1, last_B[:, None])[:, 0])
        logps_B_T = torch.stack(self._steps, dim=1).tolist()
        return [row[: len(ids)] for row, ids in zip(logps_B_T, completion_ids, strict=True)]
