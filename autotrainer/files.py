"""Reading and writing the contract's files: atomic, durable, with one policy for NaN.

Non-finite numbers are the strings "NaN", "Infinity" and "-Infinity" on disk, in both directions of metrics; a
reader of a `.jsonl` file tolerates one torn last line and no more.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autotrainer.errors import ContractError

SCHEMA_VERSION = 1
_NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(value: Any) -> Any:
    """The value with every non-finite float replaced by its string, tuples by lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return value


def decode_number(value: Any) -> Any:
    """A non-finite string as the float it stands for; anything else as it is."""
    return _NONFINITE.get(value, value) if isinstance(value, str) else value


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Canonical JSON text (sorted keys, no bare NaN)."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(
        encode(value),
        sort_keys=True,
        indent=indent,
        separators=separators,
        ensure_ascii=False,
        allow_nan=False,
    )


def write_text(path: Path, text: str) -> None:
    """Write aside, fsync, rename into place: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write one JSON document atomically."""
    write_text(path, dumps(value, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object.

    Raises:
        FileNotFoundError: there is no such file.
        ContractError: it is not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ContractError(f"{path}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ContractError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a `.jsonl` file; a torn last line is left out, a missing file is empty.

    Raises:
        ContractError: a line other than the last is not a JSON object.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            if number == len(lines):
                break
            raise ContractError(f"{path}:{number}: not JSON ({error})") from error
        if not isinstance(row, dict):
            raise ContractError(f"{path}:{number}: expected a JSON object, found {type(row).__name__}")
        rows.append(row)
    return rows
