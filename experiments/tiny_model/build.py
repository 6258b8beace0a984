"""Build the tiny model that ships with the package: a seeded warm-up of a small Llama on train items.

Run `OMP_NUM_THREADS=1 python -m experiments.tiny_model.build autotrainer/models/tiny`.

What it is for, and what came out, is in README.md beside this file.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from experiments.tiny_model.tokenizer import build_tokenizer
from harness.tasks.api import Item
from harness.tasks.arithmetic import LEVELS, ArithmeticTask, items_of

_IGNORE = -100


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The vetted warm-up. Off-by-one shares are those of the training targets, by level."""

    seed: int = 0
    steps: int = 2000
    clean_steps: int = 1200
    batch: int = 128
    learning_rate: float = 2e-3
    warm_up_steps: int = 50
    weight_decay: float = 0.01
    off_by_one: Mapping[str, float] = field(
        default_factory=lambda: {
            "add_small": 0.56,
            "subtract": 0.64,
            "add_two_digit": 0.69,
            "multiply": 0.60,
            "add_three": 0.69,
        }
    )


@dataclass(frozen=True, slots=True)
class Encoded:
    """Items as tensors: token ids and labels of shape (items, targets, length), right-padded.

    Target 0 is the right answer, 1 and 2 are one more and one less.
    """

    ids: torch.Tensor
    labels: torch.Tensor
    off_by_one: torch.Tensor


def model_config(tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    """Return the architecture: 1.08 million parameters, embeddings tied."""
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def encode(
    tokenizer: PreTrainedTokenizerFast, items: Sequence[Item], off_by_one: Mapping[str, float]
) -> Encoded:
    """Return the items with their three targets, each ended by the end-of-turn token."""
    rows: list[tuple[list[int], int]] = []
    for item in items:
        prompt = tokenizer.apply_chat_template(
            list(item.prompt), add_generation_prompt=True, tokenize=True, return_dict=False
        )
        value = int(item.answer)
        for target in (value, value + 1, value - 1):
            answer = tokenizer(str(target), add_special_tokens=False).input_ids
            rows.append(([*prompt, *answer, tokenizer.eos_token_id], len(prompt)))
    length = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), length), tokenizer.pad_token_id)
    labels = torch.full((len(rows), length), _IGNORE)
    for row, (tokens, prompt_length) in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        labels[row, prompt_length : len(tokens)] = ids[row, prompt_length : len(tokens)]
    shares = torch.tensor([off_by_one[str(item.columns["level"])] for item in items])
    return Encoded(ids.view(len(items), 3, -1), labels.view(len(items), 3, -1), shares)


def warm_up(model: LlamaForCausalLM, data: Encoded, levels: Sequence[str], settings: WarmUp) -> None:
    """Train the model in place: right answers first, then answers that are often off by one.

    The second part teaches it to spread its samples over the answer and its neighbours; the learning rate
    has decayed to zero at its end, so that the spread is the targets' own.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    weights = _balanced(levels)
    optimizer = torch.optim.AdamW(
        model.parameters(), settings.learning_rate, betas=(0.9, 0.98), weight_decay=settings.weight_decay
    )
    model.train()
    started = time.perf_counter()
    for step in range(settings.steps):
        rows = torch.multinomial(weights, settings.batch, replacement=True, generator=generator)
        wrong = torch.rand(settings.batch, generator=generator) < data.off_by_one[rows]
        side = torch.randint(1, 3, (settings.batch,), generator=generator)
        target = torch.where(wrong & (step >= settings.clean_steps), side, 0)
        loss = answer_loss(model, data.ids[rows, target], data.labels[rows, target]).mean()
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * _schedule(step, settings)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0 or step == settings.steps - 1:
            _say(f"step {step} loss {loss.item():.3f} {time.perf_counter() - started:.0f} s")


def answer_loss(model: LlamaForCausalLM, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the negative log-likelihood of each labelled token, as a flat tensor without the others."""
    logits = model(input_ids=ids).logits[:, :-1]
    shifted = labels[:, 1:]
    kept = shifted != _IGNORE
    return cross_entropy(logits[kept], shifted[kept], reduction="none")


def accuracy(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, items: Sequence[Item]
) -> dict[str, float]:
    """Return the probability of sampling exactly the right answer at temperature 1: pooled and by level.

    This is the expectation of the sampled accuracy; nothing is drawn. `greedy` is the pooled greedy accuracy.
    """
    data = encode(tokenizer, items, dict.fromkeys(LEVELS, 0.0))
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=data.ids[:, 0]).logits[:, :-1]
    labels = data.labels[:, 0, 1:]
    losses = cross_entropy(logits.transpose(1, 2), labels, ignore_index=_IGNORE, reduction="none")
    right = (-losses.sum(-1)).exp()
    greedy = ((logits.argmax(-1) == labels) | (labels == _IGNORE)).all(-1).float()
    levels = [str(item.columns["level"]) for item in items]
    result = {"pooled": right.mean().item(), "greedy": greedy.mean().item()}
    for level in LEVELS:
        result[level] = right[torch.tensor([name == level for name in levels])].mean().item()
    return result


def _balanced(levels: Sequence[str]) -> torch.Tensor:
    counts = {level: levels.count(level) for level in set(levels)}
    return torch.tensor([counts[level] ** -0.5 for level in levels])


def _schedule(step: int, settings: WarmUp) -> float:
    return min((step + 1) / settings.warm_up_steps, 1.0) * (1.0 - step / settings.steps)


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")


def build(folder: Path, settings: WarmUp) -> dict[str, float]:
    """Write the model folder; return its dev accuracy by level."""
    torch.manual_seed(settings.seed)
    tokenizer = build_tokenizer()
    model = LlamaForCausalLM(model_config(tokenizer))
    items = items_of("train")
    levels = [str(item.columns["level"]) for item in items]
    warm_up(model, encode(tokenizer, items, settings.off_by_one), levels, settings)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(folder)
    shipped = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return accuracy(shipped, tokenizer, ArithmeticTask().splits({"dev": 512}, 0)["dev"])


def main() -> None:
    """Build into the folder named on the command line and report the dev accuracies on stdout as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    json.dump(build(arguments.folder, replace(WarmUp(), seed=arguments.seed)), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
