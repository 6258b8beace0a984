"""Reward functions for TRL: the task's frozen verifier, shaping functions, columns that hooks fill."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.contract import ContractError, RewardSpec, split_ref
from harness.tasks.api import Task
from harness.training_set import TrainingSet

VERIFIER = "accuracy"
"""The verifier's component."""

RewardFunction = Callable[..., list[float | None]]


class Rewards:
    """The reward functions of a stage; `nonfinite` counts what they returned that is no number."""

    def __init__(
        self, specs: Sequence[RewardSpec], task: Task, items: TrainingSet, max_completion_length: int
    ) -> None:
        """Load the shaping functions.

        Raises:
            ContractError: a function is missing, or two components have one name.
        """
        self._task, self._items, self._cap = task, items, max_completion_length
        self.step = 0
        self.nonfinite = 0
        self.weights = {VERIFIER if spec.ref == "verifier" else _name(spec): spec.weight for spec in specs}
        if len(self.weights) != len(specs):
            raise ContractError(f"rewards: two components have one name; names: {', '.join(self.weights)}")
        self.functions: list[RewardFunction] = [
            self._verifier() if spec.ref == "verifier" else self._shaping(spec) for spec in specs
        ]

    def add(self, weights: Mapping[str, float]) -> None:
        """Add empty components, for reward hooks to fill."""
        for name, weight in weights.items():

            def empty(prompts: Sequence[Any], **_: Any) -> list[float | None]:
                return [None] * len(prompts)

            empty.__name__ = name
            self.weights[name] = weight
            self.functions.append(empty)

    def columns(self, prompt_ids: Sequence[str]) -> dict[str, list[Any]]:
        """The task columns of rows: answer and columns."""
        items = [self._items.find(prompt_id) for prompt_id in prompt_ids]
        return {"answer": [item.answer for item in items], "columns": [dict(item.columns) for item in items]}

    def _verifier(self) -> RewardFunction:
        def accuracy(completions: Sequence[Any], prompt_id: Sequence[str], **_: Any) -> list[float | None]:
            items = [self._items.find(key) for key in prompt_id]
            return [
                self._task.verify(text, item.answer, item.columns).score
                for text, item in zip(texts(completions), items, strict=True)
            ]

        accuracy.__name__ = VERIFIER
        return accuracy

    def _shaping(self, spec: RewardSpec) -> RewardFunction:
        module, name = split_ref(spec.ref, "rewards", "rewards")
        try:
            function = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise ContractError(f"rewards: {spec.ref}: there is no such file in the workspace") from None
        except AttributeError:
            raise ContractError(f"rewards: {spec.ref}: the file has no function {name}") from None

        def shaping(
            prompts: Sequence[Any],
            completions: Sequence[Any],
            completion_ids: Sequence[Any],
            prompt_id: Sequence[str],
            **_: Any,
        ) -> list[float | None]:
            values = function(
                completions=texts(completions),
                prompts=prompts,
                completion_ids=completion_ids,
                prompt_id=list(prompt_id),
                **self.columns(prompt_id),
                step=self.step,
                max_completion_length=self._cap,
                **spec.params,
            )
            return self._checked(spec.ref, list(values), len(prompts))

        shaping.__name__ = name
        return shaping

    def _checked(self, ref: str, values: list[Any], wanted: int) -> list[float | None]:
        if len(values) != wanted:
            raise ContractError(f"{ref} returned {len(values)} values for {wanted} completions")
        for value in values:
            if value is not None and not isinstance(value, int | float):
                raise ContractError(f"{ref} returned {value!r}: need a number or None for each completion")
            self.nonfinite += value is not None and not math.isfinite(value)
        return values


def texts(completions: Sequence[Any]) -> list[str]:
    """The text of each completion, conversational or not."""
    return [one if isinstance(one, str) else one[-1]["content"] for one in completions]


def _name(spec: RewardSpec) -> str:
    name = spec.ref.rpartition(":")[2]
    if name == VERIFIER:
        raise ContractError(f"rewards: {spec.ref}: the name {VERIFIER!r} is the verifier's")
    return name
