"""Recorded rollouts of a job, by step and group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotrainer.errors import ContractError
from autotrainer.files import encode

_MOST_TEXT = 20_000
"""Characters of a completion that are sent to the page."""
_COLUMNS = (
    "step",
    "prompt_id",
    "group",
    "prompt",
    "completion",
    "tokens",
    "finish_reason",
    "reward",
    "advantage",
)


def rollout_files(folder: Path) -> list[tuple[int, Path]]:
    """The files by their first step, in order."""
    found = [(int(path.stem), path) for path in folder.glob("*.parquet") if path.stem.isdigit()]
    return sorted(found)


def rollout_steps(folder: Path) -> list[int]:
    """The steps that have rollouts; a file that is just being written is left out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    steps: set[int] = set()
    for _, path in rollout_files(folder):
        try:
            steps |= set(pq.read_table(path, columns=["step"])["step"].to_pylist())
        except (OSError, pa.ArrowInvalid):
            continue
    return sorted(steps)


def rollout_groups(folder: Path, step: int) -> list[dict[str, Any]]:
    """The groups of a step: prompt, mean reward, and the completions, the best first.

    Raises:
        ContractError: there are no rollouts of the step.
    """
    import pyarrow.parquet as pq

    candidates = [path for first, path in rollout_files(folder) if first <= step]
    rows = (
        pq.read_table(
            candidates[-1], columns=[*_COLUMNS, "components"], filters=[("step", "=", step)]
        ).to_pylist()
        if candidates
        else []
    )
    if not rows:
        raise ContractError(f"{folder} has no rollouts of step {step}")
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(int(row["group"]), []).append(row)
    return [_group(number, members) for number, members in sorted(groups.items())]


def _group(number: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    ranked = sorted(rows, key=lambda row: -(row["reward"] if row["reward"] == row["reward"] else 0.0))
    value: dict[str, Any] = encode(
        {
            "group": number,
            "prompt_id": rows[0]["prompt_id"],
            "prompt": rows[0]["prompt"][:_MOST_TEXT],
            "mean": sum(row["reward"] for row in rows) / len(rows),
            "completions": [
                {
                    "text": row["completion"][:_MOST_TEXT],
                    "cut": len(row["completion"]) > _MOST_TEXT,
                    **{k: row[k] for k in ("tokens", "finish_reason", "reward", "advantage", "components")},
                }
                for row in ranked
            ],
        }
    )
    return value
