"""The recorder: one line of metrics.jsonl a step, and the rollouts. Frozen.

Under several processes all of them collect and the main one writes; what is written is of all processes.

It takes non-finite values where they occur, since TRL's log hides them: there a NaN loss is replaced by the
mean of earlier ones, a NaN metric by null.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from harness.contract import SCHEMA_VERSION, JobSpec, append_jsonl
from harness.heartbeat import Heartbeat, peak_memory_gib
from harness.loss_statistics import LossStatistics
from harness.processes import gather, is_main
from harness.rollouts import RolloutWriter
from harness.statistics import GenerationBatch, batch_metrics, nonfinite_components


class Recorder:
    """Collects a step from its first micro-batch to its end and writes its row."""

    def __init__(self, job: JobSpec, heart: Heartbeat, started: float) -> None:
        """Write into the job's folder."""
        folder = Path(job.output)
        self._path, self._heart, self._started = folder / "metrics.jsonl", heart, started
        self._rollouts = RolloutWriter(folder, job.rollouts)
        self._batch: GenerationBatch | None = None
        self._fresh: dict[str, float] = {}
        self._seconds = {"generate": 0.0, "reward": 0.0}
        self._step_started: float | None = None
        self._nonfinite = 0
        self._bad_loss: float | None = None
        self._means: list[tuple[int, float]] = []
        self.tokens = LossStatistics()

    def begin_micro_step(self) -> None:
        """A micro-batch begins; the first one of a step starts its clock."""
        if self._step_started is None:
            self._step_started = time.perf_counter()

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """A phase of the heartbeat whose seconds count as generate or reward, not as train.

        Within another phase they count for the inner one alone.
        """
        begun, before = time.perf_counter(), sum(self._seconds.values())
        with self._heart.phase(phase):
            yield
        inner = sum(self._seconds.values()) - before
        self._seconds[phase] += time.perf_counter() - begun - inner

    def loss(self, value: float) -> None:
        """The loss of a micro-batch."""
        if not math.isfinite(value):
            self._nonfinite += 1
            self._bad_loss = value

    def batch(
        self, step: int, batch: GenerationBatch, nonfinite: int, extra: Mapping[str, float] | None = None
    ) -> None:
        """A generation batch of all processes was scored for `step`.

        Args:
            step: the step that it is first trained on.
            batch: the batch.
            nonfinite: how many of this process's shaping rewards were no numbers.
            extra: further keys for the step's row.
        """
        batch.logp_means = [None] * len(batch.completions)
        nonfinite = sum(gather(nonfinite))
        if is_main():
            self._nonfinite += max(nonfinite, nonfinite_components(batch.components))
            self._nonfinite += sum(not math.isfinite(value) for value in batch.advantages)
            self._fresh = {**batch_metrics(batch), **(extra or {})}
            self._rollouts.add(step, batch)
        self._batch = batch

    def logps(self, rows: Sequence[int], means: Sequence[float]) -> None:
        """Mean log-probs of rows of the generation batch, under the first policy that was updated on them."""
        self._means += zip(rows, means, strict=True)

    def _place_means(self) -> None:
        for row, mean in itertools.chain.from_iterable(gather(self._means)):
            if self._batch is not None and self._batch.logp_means[row] is None and math.isfinite(mean):
                self._batch.logp_means[row] = mean
        self._means = []

    def end_step(self) -> float:
        """Stop the step's clock and return its seconds."""
        now = time.perf_counter()
        return now - (self._step_started if self._step_started is not None else now)

    def write(
        self, step: int, stage: int, seconds: float, logs: Mapping[str, Any], extra: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Write the step's row and begin the next step. Under several processes a collective.

        `nonfinite` counts losses of micro-batches, the gradient's norm, reward components and advantages that
        are NaN or infinite in this step. `time/train_s` = the step's seconds less those in generate and
        reward.
        `grad_norm` is TRL's, which is the norm before clipping.

        Args:
            step: the job's step.
            stage: the stage's place.
            seconds: what `end_step` returned.
            logs: TRL's log of the step; non-finite gradients are counted from it.
            extra: further keys of the recorder.
        """
        self._place_means()
        counts = gather((self._nonfinite, self._bad_loss))
        losses = [loss for _, loss in counts if loss is not None]
        gradient = logs.get("grad_norm")
        bad = sum(count for count, _ in counts) + (gradient is not None and not math.isfinite(gradient))
        generate_s, reward_s = self._seconds["generate"], self._seconds["reward"]
        row = {
            **logs,
            **self._fresh,
            **self.tokens.row(),
            **extra,
            "schema_version": SCHEMA_VERSION,
            "step": step,
            "stage": stage,
            "time": time.time(),
            "wall_s": time.time() - self._started,
            "nonfinite": bad,
            "time/generate_s": generate_s,
            "time/reward_s": reward_s,
            "time/train_s": max(0.0, seconds - generate_s - reward_s),
            "memory/peak_gib": memory_gib(),
        }
        if losses:
            row["loss"] = losses[0]
        if is_main():
            append_jsonl(self._path, row)
        self._fresh, self._bad_loss, self._nonfinite, self._step_started = {}, None, 0, None
        self._seconds = {"generate": 0.0, "reward": 0.0}
        return row

    def flush(self) -> None:
        """Write what is still in memory."""
        if is_main():
            self._rollouts.flush()


def memory_gib() -> float:
    """Peak memory so far: of the GPU where there is one, else of the process."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated()) / 2**30
    return peak_memory_gib()
