"""Parsers of the formats in which people have their runs, and how a format is told from the content."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotrainer.errors import ConfigError

Rows = Sequence[Mapping[str, Any]]
_HEAD = 200_000
_LONGEST_LINE = 1_000_000
_JSON = re.compile(r'[\[{]\s*[\[{"\]}]')
_VERL = re.compile(r"\bstep:\s*\d+\s+-\s")
_PAIR = re.compile(
    r"([A-Za-z_][\w./()-]*)\s*[:=]\s*([-+]?(?:nan|inf(?:inity)?|\d[\d.]*(?:e[-+]?\d+)?))", re.IGNORECASE
)
_STEP = re.compile(r"\b(?:global[_ ]?step|step|rollout|iteration|iter)\b[ :=#]*(\d+)", re.IGNORECASE)
_BULLET = re.compile(
    r"^\s*[•*-]?\s*([A-Za-z][\w /()-]{1,40}?):\s*([-+]?(?:nan|\d[\d.]*(?:e[-+]?\d+)?))\s*$", re.IGNORECASE
)
_NEMO = {
    "loss": "loss",
    "avg reward": "reward",
    "average reward": "reward",
    "mean generation length": "completions/mean_length",
    "avg generation length": "completions/mean_length",
    "grad norm": "grad_norm",
    "token mult prob error": "token_mult_prob_error",
    "kl": "kl",
    "entropy": "entropy",
}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def text_of(path: Path) -> str:
    """A file's text: UTF-8 or UTF-16 by its mark, else Latin letters; what is not text is replaced."""
    raw = path.read_bytes()
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    return raw.decode("utf-8-sig", "replace")


def detect(path: Path) -> str:
    """The format of a file or folder.

    Raises:
        ConfigError: it is binary, or nothing that is known.
    """
    if path.is_dir():
        if any(path.rglob("events.out.tfevents*")):
            return "tensorboard"
        if (path / "metrics").is_dir() or any(path.glob("*/*/metrics")):
            return "mlflow"
        states = sorted(path.rglob("trainer_state.json"))
        if states or any(path.glob("*metrics*.jsonl")):
            return "folder"
        raise ConfigError(
            f"{path} holds no event files, no MLflow run, no trainer_state.json, no metrics.jsonl"
        )
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head.strip():
        raise ConfigError(f"{path} is empty")
    if b"\x00" in head[:4096] and head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        if path.name.startswith("events.out.tfevents"):
            return "tensorboard"
        raise ConfigError(f"{path} is a binary file: no log, table or JSON")
    return _detect_text(path, head.decode("utf-8", "replace"))


def _detect_text(path: Path, head: str) -> str:
    start = head.lstrip("\ufeff \t\r\n")
    first = next((line for line in start.splitlines() if line.strip()), "")
    if start[:1] == "{" and '"log_history"' in text_of(path):
        return "trainer_state"
    row = _json(first)
    if row is not None:
        columns = start.strip() == first.strip() and any(isinstance(value, list) for value in row.values())
        return "json" if columns and not _is_case(row) else "jsonl"
    if _JSON.match(start):
        return "json"
    if _VERL.search(head):
        return "verl"
    if re.search(r"\{'[^']+':", head):
        return "trl"
    if "," in first and len(next(csv.reader([first]))) > 1 and not _PAIR.search(first):
        return "csv"
    if "\t" in first and not _PAIR.search(first):
        return "csv"
    if re.search(r"(avg|average) reward:", head, re.IGNORECASE) and "•" in head:
        return "nemo-rl"
    return "text"


def trainer_state(path: Path) -> Rows:
    """HF Trainer's trainer_state.json: the rows of log_history."""
    value = _whole(path)
    rows = value.get("log_history") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise ConfigError(f"{path} has no log_history: it is no trainer_state.json")
    return [row for row in rows if isinstance(row, dict)]


def json_rows(path: Path) -> Rows:
    """A JSON document: a list of rows, rows under a key, or columns of equal length."""
    value = _whole(path)
    if isinstance(value, list):
        return [_flat(row) for row in value if isinstance(row, dict)]
    if isinstance(value, dict):
        for item in value.values():
            if isinstance(item, list) and item and all(isinstance(row, dict) for row in item):
                return [_flat(row) for row in item]
        columns = {key: item for key, item in value.items() if isinstance(item, list)}
        if columns:
            size = max(map(len, columns.values()))
            return [{key: item[i] for key, item in columns.items() if i < len(item)} for i in range(size)]
        return [_flat(value)]
    raise ConfigError(f"{path} holds neither rows nor columns")


def jsonl(path: Path) -> Rows:
    """One JSON object a line (ours, verl, slime, W&B exports); lines that are none are passed over."""
    rows: list[Any] = []
    for line in _lines(path):
        value = _json(line)
        if value is not None:
            rows += value["rows"] if _is_case(value) else [_flat(value)]
    return rows


def table(path: Path) -> Rows:
    """CSV or TSV: a row a step, TensorBoard's (Wall time, Step, Value), or W&B's `run - metric`."""
    text = text_of(path)
    head = text[:20_000]
    try:
        dialect: Any = csv.Sniffer().sniff(head, delimiters=",;\t")
    except csv.Error:
        dialect = csv.excel
    csv.field_size_limit(_LONGEST_LINE)
    try:
        rows = list(csv.DictReader(text.splitlines(), dialect=dialect))
    except csv.Error as error:
        raise ConfigError(f"{path} is no table: {error}") from None
    return [_table_row(path, row) for row in rows]


def _table_row(path: Path, row: Mapping[str | None, Any]) -> dict[str, Any]:
    found = {str(key).rsplit(" - ", 1)[-1].strip(): value for key, value in row.items() if key and value}
    if "Value" in found and "Step" in found:
        return {
            "step": found["Step"],
            path.stem.removeprefix("run-").split("-tag-")[-1].replace("_", "/", 1): found["Value"],
        }
    return {key: value for key, value in found.items() if not key.endswith(("__MIN", "__MAX"))}


def trl(path: Path) -> Rows:
    """Python dictionaries, one a logged step, anywhere in a console log (TRL, ms-swift, slime)."""
    rows = []
    for line in _lines(path):
        for part in _dictionaries(line):
            row = _literal(part)
            if row:
                rows.append({**_line_step(line[: line.index(part)]), **row})
    return rows


def verl(path: Path) -> Rows:
    """Verl's console lines: `step:12 - actor/kl_loss:0.1 - ...`."""
    rows = []
    for line in _lines(path):
        if _VERL.search(line):
            rows.append(dict(_PAIR.findall(line[line.index("step:") :])))
    return rows


def nemo(path: Path) -> Rows:
    """NeMo-RL's blocks: a step line, then a bullet a metric."""
    rows: list[dict[str, Any]] = []
    for line in _lines(path):
        step = re.search(r"\bStep\s+(\d+)\s*/", line)
        if step:
            rows.append({"step": step[1]})
        bullet = _BULLET.match(line)
        if bullet:
            if not rows:
                rows.append({})
            name = bullet[1].strip().lower()
            rows[-1][_NEMO.get(name, name)] = bullet[2]
    return rows


def text(path: Path) -> Rows:
    """Any log with `name: number` or `name=number` pairs (OpenRLHF's progress bars and the like)."""
    rows = []
    for line in _lines(path):
        pairs = dict(_PAIR.findall(line))
        if len(pairs) >= 2:
            rows.append({**_line_step(line), **pairs})
    return rows


def folder(path: Path) -> Rows:
    """A run's folder: the newest trainer_state.json, else metrics.jsonl files in the order of their names."""
    states = sorted(path.rglob("trainer_state.json"), key=lambda file: file.stat().st_mtime)
    if states:
        return trainer_state(states[-1])
    return [row for file in sorted(path.glob("*metrics*.jsonl")) for row in jsonl(file)]


def mlflow(path: Path) -> Rows:
    """A run folder of MLflow's file store: metrics/NAME with `time value step` lines; the newest run."""
    places = [path / "metrics"] if (path / "metrics").is_dir() else sorted(path.glob("*/*/metrics"))
    newest = max(places, key=lambda place: place.stat().st_mtime)
    by_step: dict[int, dict[str, Any]] = {}
    for file in sorted(file for file in newest.rglob("*") if file.is_file()):
        name = file.relative_to(newest).as_posix()
        for line in _lines(file):
            parts = line.split()
            if len(parts) == 3 and parts[2].lstrip("-").isdigit():
                by_step.setdefault(int(parts[2]), {"step": int(parts[2])})[name] = parts[1]
    return [by_step[step] for step in sorted(by_step)]


def tensorboard(path: Path) -> Rows:
    """Scalars of a folder of event files, by the tensorboard package.

    Raises:
        ConfigError: the package is not installed.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        raise ConfigError(
            "event files need the tensorboard package: pip install tensorboard, or export them as CSV"
        ) from None
    by_step: dict[int, dict[str, Any]] = {}
    folders = {file.parent for file in path.rglob("events.out.tfevents*")} if path.is_dir() else {path}
    for place in sorted(folders):
        events = EventAccumulator(str(place), size_guidance={"scalars": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            for item in events.Scalars(tag):
                by_step.setdefault(item.step, {"step": item.step})[tag] = item.value
    return [by_step[step] for step in sorted(by_step)]


FORMATS: Mapping[str, Callable[[Path], Rows]] = {
    "trainer_state": trainer_state,
    "jsonl": jsonl,
    "json": json_rows,
    "csv": table,
    "trl": trl,
    "verl": verl,
    "nemo-rl": nemo,
    "text": text,
    "folder": folder,
    "mlflow": mlflow,
    "tensorboard": tensorboard,
}


def _lines(path: Path) -> Iterator[str]:
    for line in text_of(path).splitlines():
        if line.strip() and len(line) <= _LONGEST_LINE:
            yield _ANSI.sub("", line)


def _whole(path: Path) -> Any:
    try:
        return json.loads(text_of(path))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {str(error)[:120]}") from None


def _json(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_case(value: Mapping[str, Any]) -> bool:
    rows = value.get("rows")
    return isinstance(rows, list) and bool(rows) and all(isinstance(row, dict) for row in rows)


def _flat(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Nested objects as keys joined by `/`; a `data` object (verl's file logger) is the row itself."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and depth < 3:
            found |= _flat(value, "" if name in ("data", "metrics", "log") else f"{name}/", depth + 1)
        else:
            found[name] = value
    return found


def _dictionaries(line: str) -> Iterator[str]:
    """The texts of `{...}` in a line, outermost, quotes aside."""
    depth, start = 0, 0
    for place, character in enumerate(line):
        if character == "{":
            if depth == 0:
                start = place
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                yield line[start : place + 1]


def _literal(part: str) -> dict[str, Any]:
    """A Python dictionary, with bare nan and inf and numpy's wrappers; {} where it is none."""
    cleaned = re.sub(r"\b(?:np|numpy|torch)\.\w+\(([^()]*)\)|\btensor\(([^(),]*)[^()]*\)", r"\1\2", part)
    cleaned = re.sub(r"(?<=[:\s,\[(])(-?)(nan|inf)(?=[\s,}\])])", r"'\1\2'", cleaned, flags=re.IGNORECASE)
    try:
        value = ast.literal_eval(cleaned)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        loaded = _json(part)
        return loaded or {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def _line_step(prefix: str) -> dict[str, Any]:
    found = _STEP.search(prefix[-200:])
    return {"step": int(found[1])} if found and len(found[1]) < 10 else {}
