"""Judge whether a task is fit to train on: its verifier, its splits, its lengths under a tokenizer."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.tasks.api import Item, Task


class AuditError(ValueError):
    """The task's items or its verifier are not fit for use; `figures` is what was measured."""

    def __init__(self, message: str, figures: Mapping[str, float] | None = None) -> None:
        """Keep message and figures."""
        super().__init__(message)
        self.figures = dict(figures or {})


def audit_items(task: Task, splits: Mapping[str, Sequence[Item]]) -> dict[str, float]:
    """Return how the verifier judges answers of known worth, and how many contents are in two splits.

    Raises:
        AuditError: A gold answer is refused, a bad one gets any credit, or two splits share a content.
    """
    gold: list[bool] = []
    bad: list[bool] = []
    owners: dict[str, str] = {}
    overlap: set[str] = set()
    for name, items in splits.items():
        if len({item.id for item in items}) < len(items):
            raise AuditError(f"the split {name} has an item twice")
        checked = getattr(task, "audit_items", len(items))
        for number, item in enumerate(items):
            if owners.setdefault(task.canonical(item), name) != name:
                overlap.add(task.canonical(item))
            if number >= checked:
                continue
            gold.append(task.verify(task.gold(item), item.answer, item.columns).score == 1.0)
            verdicts = [task.verify(text, item.answer, item.columns) for text in task.known_bad(item)]
            bad += [verdict.score == 0.0 for verdict in verdicts]
    audit = {
        "gold_accepted": sum(gold) / len(gold),
        "bad_rejected": sum(bad) / len(bad),
        "overlap": len(overlap),
    }
    if audit != {"gold_accepted": 1.0, "bad_rejected": 1.0, "overlap": 0}:
        raise AuditError(
            f"task {task.name}: {audit}; gold_accepted and bad_rejected must be 1 and overlap 0", audit
        )
    return audit


def measure_lengths(model_path: str, items: Sequence[Item], golds: Sequence[str]) -> dict[str, int]:
    """Return prompt_tokens_p99, prompt_tokens_max and gold_tokens_max under the model's tokenizer.

    A prompt counts with its chat template, an answer with its end-of-turn token.
    """
    from transformers import AutoTokenizer

    if Path(model_path).is_absolute() and not Path(model_path).is_dir():
        raise ValueError(f"model path {model_path} is not a folder; give a model folder or a hub id")
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    if tokenizer.chat_template is None:
        raise ValueError(f"model {model_path} has no chat template; choose an instruct model")
    prompts = tokenizer.apply_chat_template(
        [list(item.prompt) for item in items], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    prompt_lengths = sorted(len(ids) for ids in prompts)
    answers = tokenizer(list(golds), add_special_tokens=False).input_ids
    return {
        "prompt_tokens_p99": prompt_lengths[math.ceil(0.99 * len(prompt_lengths)) - 1],
        "prompt_tokens_max": prompt_lengths[-1],
        "gold_tokens_max": max(len(ids) for ids in answers) + 1,
    }
