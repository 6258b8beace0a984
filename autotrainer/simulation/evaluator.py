"""SimulatedEvaluator: the evaluator's client, the evaluator simulated behind it, one answer after another."""

from __future__ import annotations

import hashlib
from typing import Any

from autotrainer.contract.models import EvalAnswer, EvalItem
from autotrainer.contract.paths import StudyPaths
from autotrainer.evaluation.client import EvaluatorClient
from autotrainer.simulation.policy import accuracy, sigmoid
from autotrainer.simulation.world import World

ITEMS = 512
"""Items of a split, as in the shipped tasks."""


class SimulatedEvaluator(EvaluatorClient):
    """Answers requests after the time that an evaluation takes; requests queue for the one evaluator.

    Items differ in difficulty, the same on every call; completions are drawn. In memory where the world is
    not durable, otherwise in the study's folder as the real evaluator leaves them.
    """

    def __init__(self, paths: StudyPaths, world: World, *, seed: int, items: int = ITEMS) -> None:
        """An evaluator of the study in `paths`; `seed` decides the items."""
        super().__init__(paths)
        self._world, self._seed, self._items = world, seed, items
        self._waiting: dict[str, tuple[float, dict[str, Any]]] = {}
        self._answers: dict[str, EvalAnswer] = {}
        self._free_at = 0.0

    def request(
        self,
        node: str,
        step: int,
        split: str,
        model_path: str,
        *,
        n: int,
        samples: int,
        temperature: float,
        max_completion_length: int,
        seed: int,
    ) -> str:
        """Ask for one checkpoint on one split; answered when the evaluator is done with what came before."""
        identity = f"{node}-{step}-{split}"
        if identity in self._waiting or identity in self._answers:
            return identity
        if self._world.durable and self._paths.eval_answer(node, step, split).is_file():
            return identity
        count = min(n or self._items, self._items)
        began = max(self._world.clock(), self._free_at)
        self._free_at = began + self._world.cost.eval_s * (count / self._items)
        given = {"node": node, "step": step, "split": split, "samples": samples, "temperature": temperature}
        self._waiting[identity] = (began, {**given, "seed": seed, "path": model_path, "count": count})
        self._world.events[f"eval {identity}"] = self._free_at
        return identity

    def poll(self, request: str) -> EvalAnswer | None:
        """The answer, once its time has come."""
        self._settle(request)
        if request in self._answers:
            return self._answers[request]
        return super().poll(request) if self._world.durable else None

    def answer(self, node: str, step: int, split: str) -> EvalAnswer:
        """The answer that is there.

        Raises:
            FileNotFoundError: there is none yet.
        """
        identity = f"{node}-{step}-{split}"
        self._settle(identity)
        if identity in self._answers:
            return self._answers[identity]
        return super().answer(node, step, split)

    def _settle(self, identity: str) -> None:
        event = f"eval {identity}"
        due = self._world.events.get(event)
        if identity not in self._waiting or due is None or self._world.clock() < due:
            return
        began, asked = self._waiting.pop(identity)
        del self._world.events[event]
        answer = self._answer(identity, began, due, asked)
        self._answers[identity] = answer
        if self._world.durable:
            answer.write(self._paths.eval_answer(asked["node"], asked["step"], asked["split"]))

    def _answer(self, identity: str, began: float, ended: float, asked: dict[str, Any]) -> EvalAnswer:
        import numpy as np

        surface, state = self._world.surface, self._world.state(asked["path"])
        split, samples, count = asked["split"], int(asked["samples"]), int(asked["count"])
        level = accuracy(surface, state)
        hardness = np.random.default_rng(_number(f"items {self._seed} {split}")).standard_normal(count)
        rough = [sigmoid(surface.start + state.skill - surface.spread * float(point)) for point in hardness]
        scale = level / max(1e-9, _expected(surface.start + state.skill, surface.spread))
        chances = np.clip(np.array(rough) * scale, 0.0, 1.0)
        rng = np.random.default_rng(_number(f"answer {self._seed} {asked['seed']} {identity}"))
        hits = rng.random((count, samples)) < chances[:, None]
        items = [
            EvalItem.model_construct(
                id=f"{split}{place:04d}",
                scores=[float(hit) for hit in row],
                greedy=float(chances[place] > 0.5),
            )
            for place, row in enumerate(hits)
        ]
        digest = hashlib.sha256(f"{asked['path']}".encode()).hexdigest()
        return EvalAnswer.model_construct(
            schema_version=1,
            id=identity,
            node=asked["node"],
            step=asked["step"],
            split=split,
            n=count,
            samples=samples,
            temperature=asked["temperature"],
            seed=asked["seed"],
            items=items,
            mean=float(hits.mean()),
            unscorable=0,
            truncated=0.0,
            tokens=0,
            device_seconds=ended - began,
            started=began,
            ended=ended,
            model_sha256=digest,
            error=None,
        )


def _expected(level: float, spread: float) -> float:
    """The mean of the logistic over prompts, as `accuracy` takes it."""
    from autotrainer.simulation.policy import POINTS

    return sum(sigmoid(level - spread * point) for point in POINTS) / len(POINTS)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
