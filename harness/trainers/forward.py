"""Other ways to the log-probs of completions than one padded, fused forward. Frozen.

Axes: B rows, L = prompt and completion tokens, T completion tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Forward = Callable[[torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor | None, Any]]
"""(ids_B_L, attention_B_L, T) to (logps_B_T, entropies_B_T, auxiliary loss), as TRL's own method."""


def token_chunks(attention_B_L: torch.Tensor, keep: int, budget: int) -> list[list[int]]:
    """Rows in chunks of at most `budget` tokens, padding between rows of a chunk included.

    Rows are sorted by length, longest first, so that a chunk needs little padding; a row that is longer than
    the budget is a chunk by itself.
    """
    heads, tails = _lengths(attention_B_L, keep)
    order = sorted(range(len(heads)), key=lambda row: (-heads[row] - tails[row], row))
    chunks: list[list[int]] = []
    for row in order:
        if chunks:
            rows = [*chunks[-1], row]
            if len(rows) * (max(heads[one] for one in rows) + max(tails[one] for one in rows)) <= budget:
                chunks[-1] = rows
                continue
        chunks.append([row])
    return chunks


def budgeted(
    forward: Forward, ids_B_L: torch.Tensor, attention_B_L: torch.Tensor, keep: int, budget: int
) -> tuple[torch.Tensor, torch.Tensor | None, Any]:
    """The result of `forward`, computed chunk by chunk without the padding that a whole batch needs.

    The values and their gradients are those of the padded forward up to rounding; padded places are 0. What
    is saved is the compute and the activations of padding: the loss is still that of the whole micro-batch.
    """
    heads, tails = _lengths(attention_B_L, keep)
    head_columns = ids_B_L.shape[1] - keep
    chunks = token_chunks(attention_B_L, keep, budget)
    logps, entropies, extra = [], [], []
    for rows in chunks:
        head, tail = max(heads[row] for row in rows), max(1, max(tails[row] for row in rows))
        columns = slice(head_columns - head, head_columns + tail)
        found = forward(ids_B_L[rows, columns], attention_B_L[rows, columns], tail)
        logps.append(torch.nn.functional.pad(found[0], (0, keep - tail)))
        if found[1] is not None:
            entropies.append(torch.nn.functional.pad(found[1], (0, keep - tail)))
        if found[2] is not None:
            extra.append(found[2] * len(rows))
    places = torch.tensor([row for rows in chunks for row in rows], device=ids_B_L.device).argsort()
    return (
        torch.cat(logps)[places],
        torch.cat(entropies)[places] if entropies else None,
        torch.stack(extra).sum() / len(ids_B_L) if extra else None,
    )


def unfused(
    model: Any, ids_B_L: torch.Tensor, attention_B_L: torch.Tensor, keep: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """logps_B_T and entropies_B_T at `temperature`, and logits_B_T_V at temperature 1, with the graph."""
    output = model(input_ids=ids_B_L, attention_mask=attention_B_L, logits_to_keep=keep + 1, use_cache=False)
    logits_B_T_V = output.logits[:, -keep - 1 : -1].float()
    scaled_B_T_V = torch.log_softmax(logits_B_T_V / temperature, dim=-1)
    counts_B_T = attention_B_L[:, -keep:].to(scaled_B_T_V.dtype)
    logps_B_T = scaled_B_T_V.gather(-1, ids_B_L[:, -keep:, None])[..., 0] * counts_B_T
    entropies_B_T = -(scaled_B_T_V.exp() * scaled_B_T_V).sum(-1) * counts_B_T
    return logps_B_T, entropies_B_T, logits_B_T_V


def _lengths(attention_B_L: torch.Tensor, keep: int) -> tuple[list[int], list[int]]:
    """Prompt and completion tokens of each row."""
    split = attention_B_L.shape[1] - keep
    return attention_B_L[:, :split].sum(1).tolist(), attention_B_L[:, split:].sum(1).tolist()
