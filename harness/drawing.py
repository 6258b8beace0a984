"""The rollouts point: what its hooks can do, and how what they return reaches TRL. Frozen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from harness import processes
from harness.hooks.api import Draw, PromptRow, RolloutBatch, RolloutInputs
from harness.recorder import Recorder
from harness.tasks.api import Item
from harness.trainers.hooks import HookSet
from harness.trainers.rewards import VERIFIER, Rewards
from harness.training_set import TrainingSet


@dataclass(frozen=True, slots=True)
class Drawn:
    """The rows that TRL trains on, this process's, and what the advantages need of the draw."""

    rows: list[dict[str, Any]]
    completion_ids: list[list[int]]
    logps: list[list[float]] | None
    tags: list[str]
    fresh: list[bool]
    baselines_P: list[float] | None
    scales_P: list[float] | None
    completions: int
    """How many were drawn, the surplus included."""
    surplus_tokens: int
    """Tokens, of prompts and completions, that were drawn and are not trained on."""


class Drawing:
    """Runs the rollouts hooks on one generation batch."""

    def __init__(
        self, trainer: Any, hooks: HookSet, rewards: Rewards, items: TrainingSet, recorder: Recorder
    ) -> None:
        """Take the parts of a stage; nothing is kept from one batch to the next."""
        self._trainer, self._hooks, self._rewards = trainer, hooks, rewards
        self._items, self._recorder = items, recorder
        self._completions = self._tokens = 0

    def run(self, inputs: Sequence[Mapping[str, Any]], step: int, batch: int, seed: int) -> Drawn:
        """Draw for rows of prompts, groups side by side.

        Raises:
            HookError: a hook returned what is not allowed.
        """
        trainer, size = self._trainer, self._trainer.num_generations
        generator = torch.Generator().manual_seed(seed + processes.rank())

        def more(count: int) -> list[PromptRow]:
            places = torch.randint(len(self._items), (count,), generator=generator).tolist()
            self._items.remember(places)
            return [prompt_row(self._items[place]) for place in places]

        found = self._hooks.draw(
            RolloutInputs(
                step=step,
                batch=batch,
                rows_P=[prompt_row(self._items.find(row["prompt_id"])) for row in inputs[::size]],
                group_size=size,
                max_completion_length=trainer.max_completion_length,
                temperature=float(trainer.temperature),
                seed=seed,
                policy=trainer.accelerator.unwrap_model(trainer.model),
                generate=self.generate,
                score=lambda draws: self._scored(draws, verifier_only=False),
                verify=lambda draws: self._scored(draws, verifier_only=True),
                more=more,
                proposed=None,
            )
        )
        if found is None:
            raise RuntimeError("the stage has no rollouts hook")
        return self._taken(found)

    def generate(
        self, rows: Sequence[PromptRow], model: Any = None, temperature: float | None = None
    ) -> list[Draw]:
        """One completion for each row, by TRL's own generation or vLLM's, with log-probs if it has any."""
        trainer = self._trainer
        if not rows:
            return []
        with _other(trainer, model, temperature):
            prompt_ids, images, fields = trainer._tokenize_prompts([list(row.prompt) for row in rows])
            completion_ids, logps = trainer._generate_single_turn(prompt_ids, images, fields, 1)
        texts = trainer.processing_class.batch_decode(completion_ids, skip_special_tokens=True)
        self._completions += len(rows)
        self._tokens += sum(map(len, prompt_ids)) + sum(map(len, completion_ids))
        return [
            Draw(row, tuple(ids), text, None if logps is None else tuple(logps[place]))
            for place, (row, ids, text) in enumerate(zip(rows, completion_ids, texts, strict=True))
        ]

    def _scored(self, draws: Sequence[Draw], verifier_only: bool) -> list[float]:
        """The weighted reward of draws, or the verifier's score; 0 where none applies."""
        total = [0.0] * len(draws)
        with self._recorder.timed("reward"):
            for (name, weight), function in zip(
                self._rewards.weights.items(), self._rewards.functions, strict=True
            ):
                if verifier_only and name != VERIFIER:
                    continue
                values = function(
                    prompts=[list(draw.row.prompt) for draw in draws],
                    completions=[draw.text for draw in draws],
                    completion_ids=[list(draw.completion_ids) for draw in draws],
                    prompt_id=[draw.row.prompt_id for draw in draws],
                )
                for place, value in enumerate(values):
                    total[place] += (1.0 if verifier_only else weight) * (value or 0.0)
        return total

    def _taken(self, batch: RolloutBatch) -> Drawn:
        tokenized, _, _ = self._trainer._tokenize_prompts([list(draw.row.prompt) for draw in batch.draws_N])
        ids = [list(draw.completion_ids) for draw in batch.draws_N]
        kept = sum(map(len, tokenized)) + sum(map(len, ids))
        logps = [draw.logps for draw in batch.draws_N]
        return Drawn(
            rows=[
                {
                    "prompt": list(draw.row.prompt),
                    "prompt_id": draw.row.prompt_id,
                    "prompt_index": self._items.place_of(draw.row.prompt_id),
                }
                for draw in batch.draws_N
            ],
            completion_ids=ids,
            logps=[list(one) for one in logps if one is not None] if None not in logps else None,
            tags=[draw.tag for draw in batch.draws_N],
            fresh=[draw.fresh for draw in batch.draws_N],
            baselines_P=None if batch.baselines_P is None else [float(one) for one in batch.baselines_P],
            scales_P=None if batch.scales_P is None else [float(one) for one in batch.scales_P],
            completions=self._completions,
            surplus_tokens=max(0, self._tokens - kept),
        )


def prompt_row(item: Item) -> PromptRow:
    """An item as hooks see it."""
    return PromptRow(item.id, item.prompt, item.answer, item.columns)


@contextmanager
def _other(trainer: Any, model: Any, temperature: float | None) -> Iterator[None]:
    """Generate with another model or temperature for the length of a block."""
    before = trainer.model_wrapped, trainer.generation_config.temperature
    if (model is not None or temperature is not None) and trainer.use_vllm:
        raise ValueError("generate: vLLM has its own model and temperature; leave both None")
    try:
        if model is not None:
            trainer.model_wrapped = model
        if temperature is not None:
            trainer.generation_config.temperature = temperature
            trainer.generation_kwargs["temperature"] = temperature
        yield
    finally:
        trainer.model_wrapped, trainer.generation_config.temperature = before
        trainer.generation_kwargs["temperature"] = before[1]
