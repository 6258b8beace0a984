"""Which prompts come when: TRL's order, resumable, with a hook that may choose instead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Sampler


@dataclass(frozen=True, slots=True)
class BatchShape:
    """A generation batch: prompts, completions of each, and micro-steps for which the batch is repeated."""

    prompts: int
    group: int
    repeats: int


class PromptSampler(Sampler[int]):
    """Yields what TRL's RepeatSampler yields, and can be resumed.

    One shuffled pass over the prompts after another, cut in batches, the rest of a pass dropped; each prompt
    `group` times, each batch `repeats` times.

    The loader reads a batch ahead. The state counts a batch once it was generated (`consume`), so that a
    checkpoint between two generation batches resumes with the very next one, even where a hook had chosen it
    already.
    """

    def __init__(self, size: int, shape: BatchShape, batches: int, seed: int, shuffle: bool = True) -> None:
        """Plan `batches` generation batches out of `size` prompts.

        Raises:
            ValueError: there are fewer prompts than one batch needs.
        """
        if size < shape.prompts:
            raise ValueError(f"a generation batch needs {shape.prompts} prompts, the training set has {size}")
        self._size, self._shape, self._batches = size, shape, batches
        self._seed, self._shuffle = seed, shuffle
        self._generator = torch.Generator().manual_seed(seed)
        self._order = torch.zeros(0, dtype=torch.long)
        self._place, self._pass = size, 0
        self._number = 0
        self._drawn: deque[tuple[list[int], int, int]] = deque()
        self._waiting: deque[list[int]] = deque()
        self._consumed = (0, 0)
        self.choose: Callable[[int, list[int]], list[int]] | None = None
        """Given the number of the batch and the prompts that come next, the prompts to use."""

    def __len__(self) -> int:
        """Rows that are planned."""
        shape = self._shape
        return self._batches * shape.prompts * shape.group * shape.repeats

    def __iter__(self) -> Iterator[int]:
        """Yield prompt indices, row by row."""
        for _ in range(self._batches):
            prompts = self._next()
            for _ in range(self._shape.repeats):
                for index in prompts:
                    for _ in range(self._shape.group):
                        yield index

    def _next(self) -> list[int]:
        if self._size - self._place < self._shape.prompts:
            self._shuffled()
        proposed = self._order[self._place : self._place + self._shape.prompts].tolist()
        self._place += self._shape.prompts
        if self._waiting:
            chosen = self._waiting.popleft()
        else:
            chosen = self.choose(self._number, proposed) if self.choose is not None else proposed
        self._number += 1
        self._drawn.append((chosen, self._pass, self._place))
        return chosen

    def _shuffled(self) -> None:
        if self._shuffle:
            self._order = torch.randperm(self._size, generator=self._generator)
        else:
            self._order = torch.arange(self._size)
        self._place = 0
        self._pass += 1

    def consume(self) -> list[int]:
        """Count the oldest batch that was read as generated, and return its prompts."""
        prompts, number, place = self._drawn.popleft()
        self._consumed = (number, place)
        return prompts

    def state_dict(self) -> dict[str, Any]:
        """Where the next run goes on."""
        return {
            "seed": self._seed,
            "size": self._size,
            "pass": self._consumed[0],
            "place": self._consumed[1],
            "number": self._number - len(self._drawn),
            "waiting": [prompts for prompts, _, _ in self._drawn],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another run stopped.

        Batches that a hook chose ahead are kept if their size is still right.

        Raises:
            ValueError: the state belongs to another training set.
        """
        if state["size"] != self._size:
            raise ValueError(f"the sampler's state is of {state['size']} prompts, the set has {self._size}")
        self._seed = int(state["seed"])
        self._generator = torch.Generator().manual_seed(self._seed)
        self._pass, self._place = 0, self._size
        while self._pass < state["pass"]:
            self._shuffled()
        if state["pass"]:
            self._place = int(state["place"])
        self._consumed = (int(state["pass"]), int(state["place"]))
        self._number = int(state["number"])
        waiting = [list(prompts) for prompts in state["waiting"]]
        if self.choose is not None and all(len(prompts) == self._shape.prompts for prompts in waiting):
            self._waiting = deque(waiting)

    @property
    def epochs(self) -> float:
        """Passes over the training set that were generated from."""
        number, place = self._consumed
        return number - 1 + place / self._size if number else 0.0
