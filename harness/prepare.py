"""Write a study's data and vault, and audit them: `python -m harness.prepare prepare.json`."""

import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.contract import SCHEMA_VERSION, read_json, write_json
from harness.heartbeat import Heartbeat
from harness.tasks.api import SPLITS
from harness.tasks.audit import AuditError, audit_items, measure_lengths
from harness.tasks.files import write_items
from harness.tasks.leaks import find_leaks
from harness.tasks.registry import facts, load

DATA_SPLITS = ("train", "probe")
VAULT_SPLITS = ("probe", "dev", "holdout", "test")

_KEYS = frozenset(
    {
        "schema_version",
        "task",
        "seed",
        "sizes",
        "model",
        "data_dir",
        "vault_dir",
        "max_completion_length",
        "output",
    }
)


@dataclass(frozen=True, slots=True)
class PrepareRequest:
    """What prepare.json asks for; lengths are in tokens, sizes in items."""

    task: str
    seed: int
    sizes: dict[str, int]
    model_path: str
    data_dir: Path
    vault_dir: Path
    max_completion_length: int
    output: Path
    force: bool = False
    """Go on where the audit fails; the manifest says so."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PrepareRequest":
        """Return the request in a parsed prepare.json; splits without a size take the task's own.

        Raises:
            ValueError: A key is missing, unknown or of the wrong type; the task or a split is unknown.
        """
        if set(value) - {"force"} != _KEYS or value["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"prepare.json needs {sorted(_KEYS)}, schema_version 1; it has {sorted(value)}")
        model, sizes = value["model"], value["sizes"]
        if not isinstance(model, dict) or not isinstance(model.get("path"), str):
            raise ValueError(f"prepare.json: model must be {{path}}, not {model!r}")
        if not isinstance(sizes, dict) or not all(type(size) is int for size in sizes.values()):
            raise ValueError(f"prepare.json: sizes must be {{split: number}}, not {sizes!r}")
        for key in ("seed", "max_completion_length"):
            if type(value[key]) is not int:
                raise ValueError(f"prepare.json: {key} must be an integer, not {value[key]!r}")
        for key in ("task", "data_dir", "vault_dir", "output"):
            if not isinstance(value[key], str):
                raise ValueError(f"prepare.json: {key} must be a string, not {value[key]!r}")
        return cls(
            task=value["task"],
            seed=value["seed"],
            sizes=facts(value["task"]).sizes | sizes,
            model_path=model["path"],
            data_dir=Path(value["data_dir"]),
            vault_dir=Path(value["vault_dir"]),
            max_completion_length=value["max_completion_length"],
            output=Path(value["output"]),
            force=value.get("force") is True,
        )


def prepare(request: PrepareRequest) -> dict[str, Any]:
    """Write data/ and vault/ and return the manifest, which is written last.

    Raises:
        AuditError: The verifier misjudges a known answer, splits overlap, or answers do not fit the length.
        ValueError: A split has too few items, or the model has no chat template.
        OSError: The files cannot be written or the tokenizer cannot be read.
    """
    task = load(request.task)
    splits = task.splits(request.sizes, request.seed)
    audit: dict[str, Any] = {}
    try:
        audit = {**audit_items(task, splits), **find_leaks(splits)}
    except AuditError as error:
        if not request.force:
            raise
        audit = {**error.figures, **find_leaks(splits), "forced": str(error)}
    items = [item for name in SPLITS for item in splits[name]]
    lengths = measure_lengths(request.model_path, items, [task.gold(item) for item in items])
    if lengths["gold_tokens_max"] > request.max_completion_length:
        raise AuditError(
            f"the longest answer takes {lengths['gold_tokens_max']} tokens with its end-of-turn token, over "
            f"max_completion_length {request.max_completion_length}; raise that"
        )
    request.data_dir.mkdir(parents=True, exist_ok=True)
    request.vault_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    request.vault_dir.chmod(0o700)
    digests: dict[str, str] = {}
    for name in VAULT_SPLITS:
        digests[name] = write_items(request.vault_dir / f"{name}.jsonl", splits[name], mode=0o600)
    for name in DATA_SPLITS:
        digests[name] = write_items(request.data_dir / f"{name}.jsonl", splits[name])
    table = facts(request.task)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "task": request.task,
        "seed": request.seed,
        "splits": {name: {"n": len(splits[name]), "sha256": digests[name]} for name in SPLITS},
        "task_facts": {
            "title": table.title,
            "licence": table.licence,
            "source": table.source,
            "max_completion_length": request.max_completion_length,
            **lengths,
        },
        "audit": audit,
    }
    write_json(request.data_dir / "manifest.json", manifest)
    return manifest


def result_of(job_id: str, started: float, error: BaseException | None) -> dict[str, Any]:
    """Return result.json: failed where the request or the task is at fault, crashed where the machine is."""
    status, failure = "completed", None
    if error is not None:
        status = "crashed" if isinstance(error, (OSError, MemoryError)) else "failed"
        frame = traceback.extract_tb(error.__traceback__)[-1]
        failure = {
            "type": type(error).__name__,
            "message": str(error),
            "file": frame.filename,
            "line": frame.lineno,
        }
    ended = time.time()
    return {
        "schema_version": SCHEMA_VERSION,
        "job_id": job_id,
        "status": status,
        "reason": "data and vault written" if error is None else str(error) or type(error).__name__,
        "failure": failure,
        "steps": 0,
        "tokens": 0,
        "device_seconds": ended - started,
        "started": started,
        "ended": ended,
        "checkpoints": [],
        "frozen_before": {},
        "frozen_after": {},
        "start": {},
        "stop": None,
        "written_by": "run",
    }


def main(arguments: list[str]) -> int:
    """Run prepare.json, leave result.json in its output (or beside it) and return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m harness.prepare prepare.json\n")
        return 2
    path, started = Path(arguments[0]), time.time()
    output = path.resolve().parent
    job_id = f"prepare.{output.name}"
    failure: Exception | None = None
    try:
        value = read_json(path)
        if isinstance(value.get("output"), str):
            output = Path(value["output"])
        output.mkdir(parents=True, exist_ok=True)
        with Heartbeat(output, job_id) as heartbeat, heartbeat.phase("load"):
            prepare(PrepareRequest.from_json(value))
    except Exception as error:  # noqa: BLE001 - the boundary of the process: whatever it is, it becomes result.json
        traceback.print_exc()
        failure = error
    result = result_of(job_id, started, failure)
    write_json(output / "result.json", result)
    return {"completed": 0, "failed": 1}.get(result["status"], 3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
