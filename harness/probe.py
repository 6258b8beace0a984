"""The probe: accuracy on items that are never trained on, and drift of the policy on a fixed batch.

The batch is sampled once from the study's base model, with a fixed seed, and handed on from checkpoint to
checkpoint with the base model's log-probs: all nodes of a study measure the same thing. Nothing here draws
from torch's global random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.generation import generate, prompt_ids
from harness.tasks.api import Item, Task

BATCH_ROWS = 64
BATCH_LENGTH = 256
BATCH_SEED = 20240
PROBE_SEED = 20241
SAMPLES = 2
"""Completions of each probe item."""
_LOGIT_BYTES = 2**28
KEPT_WEIGHTS = 2**22
"""Weights of the start that are kept, for the share that changed; of a larger model every n-th one."""


@dataclass(frozen=True, slots=True)
class ProbeBatch:
    """Prompts (left-padded) with completions (right-padded) and the base policy's log-probs of these."""

    ids_B_L: torch.Tensor
    attention_B_L: torch.Tensor
    mask_B_T: torch.Tensor
    base_logps_B_T: torch.Tensor

    def state_dict(self) -> dict[str, torch.Tensor]:
        """As tensors on the CPU."""
        return {
            "ids": self.ids_B_L.cpu(),
            "attention": self.attention_B_L.cpu(),
            "mask": self.mask_B_T.cpu(),
            "base_logps": self.base_logps_B_T.cpu(),
        }

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor], device: torch.device) -> ProbeBatch:
        """The batch back from `state_dict`."""
        names = ("ids", "attention", "mask", "base_logps")
        return cls(*(state[name].to(device) for name in names))


def sample_batch(model: Any, tokenizer: Any, items: Sequence[Item], max_completion_length: int) -> ProbeBatch:
    """Sample the fixed batch from the base model, at temperature 1."""
    prompts = [item.prompt for item in items[:BATCH_ROWS]]
    sampled = generate(
        model,
        tokenizer,
        prompts,
        max_new_tokens=min(max_completion_length, BATCH_LENGTH),
        temperature=1.0,
        samples=1,
        seed=BATCH_SEED,
    )
    heads = prompt_ids(tokenizer, prompts)
    tails = [list(completions[0].tokens) for completions in sampled]
    width, length = max(map(len, heads)), max(map(len, tails))
    pad = tokenizer.pad_token_id
    ids = [
        [pad] * (width - len(head)) + head + tail + [pad] * (length - len(tail))
        for head, tail in zip(heads, tails, strict=True)
    ]
    attention = [
        [0] * (width - len(head)) + [1] * (len(head) + len(tail)) + [0] * (length - len(tail))
        for head, tail in zip(heads, tails, strict=True)
    ]
    mask = [[1] * len(tail) + [0] * (length - len(tail)) for tail in tails]
    device = next(model.parameters()).device
    batch = ProbeBatch(
        torch.tensor(ids, device=device),
        torch.tensor(attention, device=device),
        torch.tensor(mask, device=device, dtype=torch.float32),
        torch.zeros(len(ids), length, device=device),
    )
    return ProbeBatch(batch.ids_B_L, batch.attention_B_L, batch.mask_B_T, token_logps(model, batch))


@torch.no_grad()
def token_logps(model: Any, batch: ProbeBatch) -> torch.Tensor:
    """Log-probs at temperature 1 of the batch's completions, in float32; 0 at padding."""
    was_training = model.training
    model.eval()
    length = batch.mask_B_T.shape[1]
    rows = max(1, _LOGIT_BYTES // (4 * (length + 1) * int(model.config.get_text_config().vocab_size)))
    found = []
    for first in range(0, len(batch.ids_B_L), rows):
        ids_B_L = batch.ids_B_L[first : first + rows]
        attention_B_L = batch.attention_B_L[first : first + rows]
        # The class's own forward: in training the instance's is wrapped to compute in bf16 on a GPU.
        output = type(model).forward(
            model,
            input_ids=ids_B_L,
            attention_mask=attention_B_L,
            logits_to_keep=length + 1,
            position_ids=(attention_B_L.cumsum(-1) - 1).clamp(min=0),
            use_cache=False,
        )
        logits_B_T_V = output.logits[:, :-1].float()
        targets_B_T = ids_B_L[:, -length:]
        found.append(torch.log_softmax(logits_B_T_V, -1).gather(-1, targets_B_T[..., None])[..., 0])
    model.train(was_training)
    return torch.cat(found) * batch.mask_B_T


def kl_estimate(from_logps_B_T: torch.Tensor, to_logps_B_T: torch.Tensor, mask_B_T: torch.Tensor) -> float:
    """KL(from || to) in nats a token, on tokens sampled from `from`.

    The mean of r - 1 - log r with r = to / from, which is unbiased and never negative (k3,
    http://joschu.net/blog/kl-approx.html); on tokens of another policy it is biased, yet 0 for equal
    policies.
    """
    log_ratio_B_T = to_logps_B_T - from_logps_B_T
    estimate_B_T = torch.expm1(log_ratio_B_T) - log_ratio_B_T
    return float((estimate_B_T * mask_B_T).sum() / mask_B_T.sum())


def logprob_gap(one_B_T: torch.Tensor, other_B_T: torch.Tensor, mask_B_T: torch.Tensor) -> float:
    """Mean absolute difference of two policies' log-probs, in nats a token."""
    return float(((one_B_T - other_B_T).abs() * mask_B_T).sum() / mask_B_T.sum())


class Probe:
    """Measures the policy of a job."""

    def __init__(self, task: Task, items: Sequence[Item], max_completion_length: int, tokenizer: Any) -> None:
        """Take the items to score; `batch` is set by the start."""
        self._task, self._items, self._cap, self._tokenizer = task, items, max_completion_length, tokenizer
        self.batch: ProbeBatch | None = None
        self._start: dict[str, torch.Tensor] = {}
        self._stride = 1

    def remember_start(self, model: Any) -> None:
        """Keep weights that the job starts from and trains, as bf16 on the CPU."""
        trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
        total = sum(value.numel() for value in trained.values())
        self._stride = max(1, -(-total // KEPT_WEIGHTS))
        self._start = {name: self._kept(value) for name, value in trained.items()}

    def _kept(self, value: torch.Tensor) -> torch.Tensor:
        thinned = value.detach().reshape(-1)[:: self._stride]
        return thinned.to("cpu", torch.bfloat16, copy=True)

    def accuracy(self, model: Any) -> float:
        """Mean verifier score of completions sampled at temperature 1; what cannot be scored counts as 0.

        Sampled accuracy is what training moves and what the evaluator measures: greedy accuracy of a model
        that knows most answers hardly changes while its sampled accuracy doubles. The random numbers are the
        same at every call, so that two policies, or two steps of one, are compared on common noise.
        """
        prompts = [item.prompt for item in self._items]
        found = generate(
            model,
            self._tokenizer,
            prompts,
            max_new_tokens=self._cap,
            temperature=1.0,
            samples=SAMPLES,
            seed=PROBE_SEED,
        )
        scores = [
            self._task.verify(completion.text, item.answer, item.columns).score or 0.0
            for completions, item in zip(found, self._items, strict=True)
            for completion in completions
        ]
        return sum(scores) / len(scores)

    def kl_start(self, model: Any) -> float:
        """KL(base || policy) on the fixed batch, in nats a token."""
        batch = self._the_batch()
        return kl_estimate(batch.base_logps_B_T, token_logps(model, batch), batch.mask_B_T)

    def kl_reference(self, model: Any, reference: Any | None) -> float:
        """KL(reference || policy) on the fixed batch; without a reference model, of the base policy."""
        batch = self._the_batch()
        if reference is None:
            return self.kl_start(model)
        return kl_estimate(token_logps(reference, batch), token_logps(model, batch), batch.mask_B_T)

    def changed_share(self, model: Any) -> float:
        """Share of trained weights that differ from the job's start when both are rounded to bf16.

        Of a model with more than KEPT_WEIGHTS it is the share among every n-th weight of each tensor.
        """
        changed = total = 0
        for name, value in model.named_parameters():
            if name not in self._start:
                continue
            now = self._kept(value)
            changed += int((now != self._start[name]).sum())
            total += now.numel()
        return changed / total

    def measure(self, model: Any) -> dict[str, float]:
        """The recorder's keys of a probe step."""
        return {
            "probe/accuracy": self.accuracy(model),
            "kl_start": self.kl_start(model),
            "weights/changed_share": self.changed_share(model),
        }

    def _the_batch(self) -> ProbeBatch:
        if self.batch is None:
            raise RuntimeError("the probe has no batch: a start sets it before anything is measured")
        return self.batch
