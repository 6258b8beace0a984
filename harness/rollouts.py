"""Rollouts on disk: one parquet file a stretch of steps, named by its first step.

Of a generation batch with more than `rollouts.max_rows` rows whole groups are kept, chosen at random by a
generator that the step alone seeds: what is kept says nothing about reward or length.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.contract import RolloutSpec, encode
from harness.statistics import GenerationBatch

FLUSH_S = 15.0
_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("prompt_id", pa.string()),
        ("group", pa.int64()),
        ("prompt", pa.string()),
        ("completion", pa.string()),
        ("tokens", pa.int64()),
        ("finish_reason", pa.string()),
        ("reward", pa.float64()),
        ("components", pa.string()),
        ("advantage", pa.float64()),
        ("logp_mean", pa.float64()),
        ("sampler_logp_mean", pa.float64()),
        ("token_ids", pa.list_(pa.int32())),
        ("mask", pa.list_(pa.int8())),
        ("tag", pa.string()),
    ]
)


class RolloutWriter:
    """Keeps rows in memory and writes them in batches by time, and whenever `flush` is called."""

    def __init__(self, folder: Path, spec: RolloutSpec) -> None:
        """Nothing is written before there are rows."""
        self._folder, self._spec = folder / "rollouts", spec
        self._rows: list[dict[str, Any]] = []
        self._open: tuple[int, GenerationBatch] | None = None
        self._last_step: int | None = None
        self._flushed = time.monotonic()

    def add(self, step: int, batch: GenerationBatch) -> None:
        """Take a generation batch; its log-probs may still be filled in until the next one comes."""
        self._close()
        due = self._last_step is None or step - self._last_step >= self._spec.every
        if due and self._spec.max_rows:
            self._open, self._last_step = (step, batch), step
        if time.monotonic() - self._flushed > FLUSH_S:
            self._write()

    def flush(self) -> None:
        """Write everything."""
        self._close()
        self._write()

    def _close(self) -> None:
        if self._open is None:
            return
        step, batch = self._open
        self._open = None
        for row in kept_rows(step, len(batch.completions), batch.group_size, self._spec.max_rows):
            reward = batch.rewards[row]
            components = {
                name: None if math.isnan(values[row]) else values[row]
                for name, values in batch.components.items()
            }
            self._rows.append(
                {
                    "step": step,
                    "prompt_id": batch.prompt_ids[row],
                    "group": row // batch.group_size,
                    "prompt": batch.prompts[row],
                    "completion": batch.completions[row],
                    "tokens": len(batch.completion_ids[row]),
                    "finish_reason": "stop" if batch.stopped[row] else "length",
                    "reward": None if math.isnan(reward) else reward,
                    "components": json.dumps(encode(components), sort_keys=True),
                    "advantage": batch.advantages[row],
                    "logp_mean": batch.logp_means[row],
                    "sampler_logp_mean": _at(batch.sampler_logp_means, row),
                    "token_ids": batch.completion_ids[row],
                    "mask": batch.masks[row] if batch.masks else [1] * len(batch.completion_ids[row]),
                    "tag": _at(batch.tags, row) or None,
                }
            )

    def _write(self) -> None:
        self._flushed = time.monotonic()
        if not self._rows:
            return
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{self._rows[0]['step']}.parquet"
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        pq.write_table(pa.Table.from_pylist(self._rows, schema=_SCHEMA), aside)
        os.replace(aside, path)
        self._rows = []


def kept_rows(step: int, rows: int, group_size: int, limit: int) -> list[int]:
    """The rows to keep: all, or as many whole groups as the limit has room for (one at least), in order."""
    if rows <= limit:
        return list(range(rows))
    groups = random.Random(step).sample(range(rows // group_size), max(1, limit // group_size))
    return [group * group_size + place for group in sorted(groups) for place in range(group_size)]


def _at(values: Sequence[Any], row: int) -> Any:
    return values[row] if values else None
