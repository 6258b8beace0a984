"""Sampling and greedy decoding in batches, for the probe and the evaluator; frozen.

A completion's random numbers depend on the seed, the prompt's place and the sample's number alone, never on
the model, the batch or the number of prompts: two checkpoints asked with one seed see common random numbers,
which takes sampling noise out of their difference.

Axes: B rows of a batch, L tokens, V vocabulary, T new tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.modeling_outputs import CausalLMOutputWithPast

MAX_ROWS = 1024
CPU_BYTES = 2**30
GPU_SHARE = 0.25
"""What a batch's cache and logits may take: a constant of the machine, so that equal calls batch equally."""

_CACHE = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
"""The argument's and the output's name: renamed within transformers 5."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One completion.

    Its text without special tokens, its token ids (the end token included), and whether it ended by itself.
    """

    text: str
    tokens: tuple[int, ...]
    stopped: bool


def prompt_ids(tokenizer: Any, prompts: Sequence[Sequence[dict[str, str]]]) -> list[list[int]]:
    """The token ids of chat prompts, with the generation prompt."""
    texts = [
        tokenizer.apply_chat_template(list(prompt), tokenize=False, add_generation_prompt=True)
        for prompt in prompts
    ]
    return [list(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]] if texts else []


@torch.no_grad()
def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[dict[str, str]]],
    *,
    max_new_tokens: int,
    temperature: float,
    samples: int,
    seed: int,
    batch_size: int | None = None,
) -> list[list[Generation]]:
    """For each prompt `samples` completions at `temperature`; temperature 0 is greedy, one completion.

    Prompts are sorted by length inside, so that batches need little padding; the result is in the order
    given. `batch_size` counts completions; None takes what fits. A batch that a GPU refuses is halved.

    Raises:
        ValueError: a number is out of range.
    """
    if max_new_tokens < 1 or samples < 1 or temperature < 0 or (batch_size is not None and batch_size < 1):
        raise ValueError(
            f"max_new_tokens {max_new_tokens}, samples {samples} and batch_size {batch_size} must be at "
            f"least 1, temperature {temperature} at least 0"
        )
    encoded = prompt_ids(tokenizer, prompts)
    order = sorted(range(len(encoded)), key=lambda place: (len(encoded[place]), place))
    copies = samples if temperature > 0 else 1
    longest = max_new_tokens + max((len(ids) for ids in encoded), default=0)
    size = max(1, (batch_size or rows_that_fit(model, longest)) // copies)
    pending = [order[first : first + size] for first in range(0, len(order), size)]
    results: dict[int, list[Generation]] = {}
    was_training = model.training
    model.eval()
    try:
        while pending:
            places = pending.pop(0)
            uniform_B_T = _uniform(seed, places, copies, max_new_tokens) if temperature > 0 else None
            batch = [encoded[place] for place in places]
            try:
                rows = _decode(model, tokenizer, batch, copies, max_new_tokens, temperature, uniform_B_T)
            except torch.OutOfMemoryError:
                if len(places) == 1:
                    raise
                torch.cuda.empty_cache()
                half = len(places) // 2
                pending[:0] = [places[:half], places[half:]]
                continue
            for number, place in enumerate(places):
                results[place] = rows[number * copies : (number + 1) * copies]
    finally:
        model.train(was_training)
    return [results[place] for place in range(len(encoded))]


def rows_that_fit(model: Any, length: int) -> int:
    """How many rows of so many tokens a batch may have, by the size of their cache and logits."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = 2 * config.num_hidden_layers * heads * width * length * model.dtype.itemsize
    logits = 4 * 4 * config.vocab_size
    device = next(model.parameters()).device
    available = CPU_BYTES
    if device.type == "cuda":
        available = int(GPU_SHARE * torch.cuda.get_device_properties(device).total_memory)
    # Growing a cache by a token copies it: twice its size at the peak.
    return max(1, min(MAX_ROWS, int(available // (2 * cache + logits))))


def _uniform(seed: int, places: Sequence[int], copies: int, steps: int) -> torch.Tensor:
    """One number in (0, 1] a row and step, counter-based: keyed by seed, prompt and sample."""
    uniform_B_T = np.empty((len(places) * copies, steps), dtype=np.float32)
    for number, place in enumerate(places):
        for copy in range(copies):
            key = np.array([seed % 2**64, place << 32 | copy], dtype=np.uint64)
            generator = np.random.Generator(np.random.Philox(key=key))
            uniform_B_T[number * copies + copy] = 1 - generator.random(steps, dtype=np.float32)
    return torch.from_numpy(uniform_B_T)


def _decode(
    model: Any,
    tokenizer: Any,
    batch: Sequence[Sequence[int]],
    copies: int,
    max_new_tokens: int,
    temperature: float,
    uniform_B_T: torch.Tensor | None,
) -> list[Generation]:
    """`copies` completions of each prompt, read once; rows that ended leave once they are the majority."""
    device = next(model.parameters()).device
    ends = _end_tokens(model, tokenizer).to(device)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    width = max(len(ids) for ids in batch)
    ids_B_L = torch.tensor([[pad] * (width - len(ids)) + list(ids) for ids in batch], device=device)
    mask_B_L = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in batch], device=device)
    logits_B_V, cache = _forward(model, ids_B_L, mask_B_L, (mask_B_L.cumsum(-1) - 1).clamp(min=0), None)
    cache.batch_repeat_interleave(copies)
    logits_B_V, mask_B_L = logits_B_V.repeat_interleave(copies, 0), mask_B_L.repeat_interleave(copies, 0)
    alive_B = torch.arange(len(batch) * copies, device=device)
    done_B = torch.zeros_like(alive_B, dtype=torch.bool)
    tokens_B_T = torch.full((len(alive_B), max_new_tokens), pad, device=device)
    if uniform_B_T is not None:
        uniform_B_T = uniform_B_T.to(device)
    for step in range(max_new_tokens):
        uniform_B = uniform_B_T[alive_B, step] if uniform_B_T is not None else None
        token_B = _pick(logits_B_V, temperature, uniform_B)
        tokens_B_T[alive_B, step] = token_B
        done_B = done_B | torch.isin(token_B, ends)
        left = int((~done_B).sum())
        if left == 0 or step + 1 == max_new_tokens:
            break
        if 2 * left <= len(done_B):
            keep = (~done_B).nonzero()[:, 0]
            cache.batch_select_indices(keep)
            token_B, mask_B_L, alive_B, done_B = token_B[keep], mask_B_L[keep], alive_B[keep], done_B[keep]
        mask_B_L = torch.cat([mask_B_L, torch.ones_like(token_B)[:, None]], dim=1)
        position_B_L = mask_B_L.sum(-1, keepdim=True) - 1
        logits_B_V, cache = _forward(model, token_B[:, None], mask_B_L, position_B_L, cache)
    return _generations(tokenizer, tokens_B_T.tolist(), set(ends.tolist()))


def _forward(
    model: Any, ids_B_L: torch.Tensor, mask_B_L: torch.Tensor, position_B_L: torch.Tensor, cache: Any
) -> tuple[torch.Tensor, Any]:
    """The last token's logits in single precision, and the cache."""
    output = model(
        input_ids=ids_B_L,
        attention_mask=mask_B_L,
        position_ids=position_B_L,
        use_cache=True,
        logits_to_keep=1,
        **{_CACHE: cache},
    )
    return output.logits[:, -1].float(), getattr(output, _CACHE)


def _pick(logits_B_V: torch.Tensor, temperature: float, uniform_B: torch.Tensor | None) -> torch.Tensor:
    """The best token, or the one whose share of the cumulative distribution holds the uniform number."""
    if uniform_B is None:
        return logits_B_V.argmax(-1)
    cumulative_B_V = torch.softmax(logits_B_V / temperature, dim=-1).cumsum(-1)
    reached_B_1 = uniform_B[:, None] * cumulative_B_V[:, -1:]
    return torch.searchsorted(cumulative_B_V, reached_B_1)[:, 0].clamp(max=logits_B_V.shape[1] - 1)


def _end_tokens(model: Any, tokenizer: Any) -> torch.Tensor:
    """What ends a completion: the end tokens of the model's generation config and of the tokenizer."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    ends = configured if isinstance(configured, list) else [configured]
    return torch.tensor(
        sorted({token for token in [*ends, tokenizer.eos_token_id] if token is not None}), dtype=torch.long
    )


def _generations(tokenizer: Any, rows: list[list[int]], ends: set[int]) -> list[Generation]:
    """Each row cut after its first end token, decoded."""
    cut = [next((place for place, token in enumerate(row) if token in ends), None) for row in rows]
    kept = [row if last is None else row[: last + 1] for row, last in zip(rows, cut, strict=True)]
    texts = tokenizer.batch_decode(kept, skip_special_tokens=True)
    return [
        Generation(text, tuple(row), last is not None)
        for text, row, last in zip(texts, kept, cut, strict=True)
    ]
