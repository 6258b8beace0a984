"""Compare two checkpoints' weights, by numpy alone: does one descend from the other?"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from autotrainer.errors import EvaluationError

_KINDS: dict[str, Any] = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "BF16": np.uint16}


def tensors(folder: Path) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Every floating-point tensor of a folder's safetensors files as float32 or float64, one at a time.

    Raises:
        EvaluationError: there is no such file.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EvaluationError(f"{folder} holds no safetensors file")
    for path in files:
        with path.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(size))
            for name, entry in sorted(header.items()):
                if name == "__metadata__" or entry["dtype"] not in _KINDS:
                    continue
                begin, end = entry["data_offsets"]
                stream.seek(8 + size + begin)
                raw = np.frombuffer(stream.read(end - begin), dtype=_KINDS[entry["dtype"]])
                value = (raw.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else raw
                yield name, value.reshape(entry["shape"]).astype(np.float32, copy=False)


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor, by name."""
    return {name: tuple(value.shape) for name, value in tensors(folder)}


def distance(base: Path, other: Path) -> float:
    """||other - base|| / ||base|| over the tensors that both have; infinite where they share none."""
    first = dict(tensors(base))
    squares = difference = 0.0
    for name, value in tensors(other):
        if name in first and first[name].shape == value.shape:
            squares += float(np.sum(np.square(first[name], dtype=np.float64)))
            difference += float(np.sum(np.square(value.astype(np.float64) - first[name])))
    return math.sqrt(difference / squares) if squares else math.inf
