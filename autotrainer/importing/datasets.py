"""A data set that a script or config names, as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from autotrainer.importing.found import Found

KNOWN = {"openai/gsm8k": "gsm8k", "gsm8k": "gsm8k", "HuggingFaceH4/MATH-500": "math500"}


def take_dataset(arguments: Sequence[Any], options: Mapping[str, Any], found: Found) -> None:
    """Name the task of `load_dataset(*arguments, **options)`; the first data set that is found counts."""
    name = str(arguments[0] if arguments else options.get("path", ""))
    if "task" in found.values:
        if name and found.values["task"] != KNOWN.get(name):
            found.not_understood("load_dataset", f"{name}: a second data set")
        return
    files = options.get("data_files")
    if isinstance(files, Mapping):
        files = files.get("train")
    if isinstance(files, list) and len(files) == 1:
        files = files[0]
    if name in KNOWN:
        found.values["task"] = KNOWN[name]
        found.remark(f"data set {name}: task {KNOWN[name]}, with its own template and verifier")
    elif isinstance(files, str):
        take_file(files, found)
    elif name:
        subset = arguments[1] if len(arguments) > 1 else options.get("name", "")
        query = urlencode({"subset": subset or "", "split": options.get("split") or "train"}, quote_via=quote)
        found.values["task"] = f"hub:{name}?{query}"
        found.remark(f"data set {name}: read with the template {{question}}, column answer, verifier exact")


def take_file(text: str, found: Found) -> None:
    """Name the task of a data file, relative to the file that names it; its columns decide the template."""
    path = Path(text).expanduser()
    place = path if path.is_absolute() else found.source.parent / path
    options: dict[str, str] = {}
    columns = _columns(place)
    for column in ("question", "prompt", "problem", "instruction"):
        if column in columns:
            options["template"] = f"{{{column}}}"
            break
    for column in ("answer", "solution", "ground_truth", "response"):
        if column in columns:
            options["answer"] = column
            break
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    found.values["task"] = f"file:{place.resolve()}{query}"
    found.remark(
        f"data file {text}: judged by the verifier exact; another is chosen with verifier= in the task"
    )


def _columns(path: Path) -> set[str]:
    import json

    if path.suffix != ".jsonl" or not path.is_file():
        return set()
    with path.open(encoding="utf-8") as lines:
        try:
            row = json.loads(lines.readline())
        except ValueError:
            return set()
    return set(row) if isinstance(row, dict) else set()
