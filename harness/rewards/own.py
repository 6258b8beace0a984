"""A user's own reward function, in TRL's or verl's form, from a file beside this one."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.reward_pool import RewardPool

_POOLS: dict[tuple[Any, ...], RewardPool] = {}


def own(
    *,
    completions: Sequence[str],
    prompts: Sequence[Any],
    completion_ids: Sequence[Any],
    prompt_id: Sequence[str],
    answer: Sequence[str],
    columns: Sequence[Mapping[str, Any]],
    file: str,
    function: str,
    task: str = "",
    timeout_s: float = 5.0,
    workers: int = 2,
    python: str | None = None,
    **_: Any,
) -> list[float | None]:
    """Return what the user's function says; None where it fails, hangs or lies about its form.

    The function sees the task's columns under their names, the answer also as `ground_truth`, `solution`.
    """
    key = (file, function, timeout_s, workers, python)
    if key not in _POOLS:
        place = Path(__file__).with_name(Path(file).name)
        _POOLS[key] = RewardPool(place, function, timeout_s=timeout_s, workers=workers, python=python)
        atexit.register(_POOLS[key].close)
    names = sorted({name for row in columns for name in row})
    table: dict[str, Sequence[Any]] = {name: [row.get(name) for row in columns] for name in names}
    table |= {name: list(answer) for name in ("solution", "ground_truth", "answer")}
    table["prompt_id"] = list(prompt_id)
    return _POOLS[key].score(task, prompts, completions, completion_ids, table)
