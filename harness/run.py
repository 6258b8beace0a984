"""The training job: `python -m harness.run job.json`, in a node's workspace. Frozen.

Whatever happens it leaves result.json in the attempt's folder. Exit code 0: completed or stopped; 1: failed,
which is the fault of the recipe or the patch; 3: crashed, which is the machine's.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from harness.contract import ContractError, JobSpec, Result, digests, read_json, write_json
from harness.failures import FrozenFileError, StopAskedError, StopFlag, failure_of, is_machine_fault
from harness.heartbeat import Heartbeat
from harness.processes import is_main, launch_fault, rank, world

if TYPE_CHECKING:
    from harness.session import Session
    from harness.starts import StagePlan

WORKSPACE = Path(__file__).resolve().parents[1]
OTHERS_S = 3.0
"""How long the main process waits for another one's note of why the connection broke."""
EXIT_CODES = {"completed": 0, "stopped": 0, "failed": 1, "crashed": 3}


def main(arguments: list[str]) -> int:
    """Run the job of a job.json and return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m harness.run job.json\n")
        return 2
    started, path = time.time(), Path(arguments[0])
    try:
        job = JobSpec.read(path)
    except (ContractError, OSError) as error:
        sys.stderr.write(f"{path}: {error}\n")
        return _refuse(path, started, error)
    result = run_job(job, started)
    if is_main():
        result.write(Path(job.output))
    return EXIT_CODES[result.status]


def run_job(job: JobSpec, started: float) -> Result:
    """Run a job and return its result; the frozen files are looked at before and after."""
    output = Path(job.output)
    output.mkdir(parents=True, exist_ok=True)
    before = digests(WORKSPACE, job.frozen)
    result = Result(job.job_id, "failed", "", started, started, frozen_before=before)
    session: Session | None = None
    with Heartbeat(output, job.job_id, writes=is_main()) as heart:
        try:
            if fault := launch_fault():
                raise ContractError(fault)
            _check_frozen(job.frozen, before)
            flag = _stop_flag()
            with heart.phase("load"):
                session, plan = open_session(job, heart, flag, started)
            _train(session, plan)
            done = session.stop is None or session.steps == job.steps
            result = replace(result, status="completed" if done else "stopped", reason=_reason(session, done))
        except StopAskedError as error:
            stop = {"id": str(error), "kind": "stop", "reason": str(error)}
            result = replace(result, status="stopped", reason="stopped before the first step", stop=stop)
        except Exception as error:  # noqa: BLE001 - the boundary of the process: whatever it is, it becomes the result
            traceback.print_exc()
            status = "crashed" if is_machine_fault(error) else "failed"
            failure = _first_failure(output, status, failure_of(error, WORKSPACE))
            status = failure.pop("status")
            reason = f"{failure['type']}: {failure['message']}"
            result = replace(result, status=status, reason=reason, failure=failure)
        with heart.phase("finish"):
            result = _finished(result, job, session)
    return result


def open_session(job: JobSpec, heart: Heartbeat, flag: StopFlag, started: float) -> tuple[Session, StagePlan]:
    """Import what training needs, plan the start, load task, data and tokenizer."""
    _import_libraries()
    import torch
    from transformers import AutoTokenizer

    from harness.session import Session
    from harness.starts import plan_start
    from harness.tasks import load
    from harness.tasks.files import read_items
    from harness.training_set import TrainingSet

    torch.set_num_threads(job.resources.threads)
    plan = plan_start(job)
    task = load(job.task)
    train, probe = TrainingSet.open(Path(job.data.train)), read_items(Path(job.data.probe))[: job.probe.n]
    if not probe:
        raise ContractError(f"data.probe {job.data.probe} has no items")
    tokenizer = AutoTokenizer.from_pretrained(job.model.path, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Session(job, heart, flag, task, train, probe, tokenizer, started), plan


def _import_libraries() -> None:
    """Import torch, transformers and TRL: 2.5 s instead of 4.3.

    Unless told not to TRL imports MLflow where it is installed (0.7 s), and the garbage collector walks all
    objects of the libraries again and again while they are imported (1 s).
    """
    if "harness.training" in sys.modules:
        return
    os.environ.setdefault("DISABLE_MLFLOW_INTEGRATION", "TRUE")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    gc.disable()
    try:
        importlib.import_module("harness.training")
        for name, function in (
            ("datasets", "disable_progress_bars"),
            ("transformers.utils.logging", "disable_progress_bar"),
        ):
            getattr(importlib.import_module(name), function)()
    finally:
        gc.freeze()
        gc.enable()


def _first_failure(output: Path, status: str, failure: dict[str, Any]) -> dict[str, Any]:
    """This process's failure with its status, or another one's that came first.

    Of several processes the one that fails leaves a note; for the others it looks like a broken connection.
    """
    own = failure | {"status": status}
    if world() == 1:
        return own
    if not is_main():
        write_json(output / f".failure-{rank()}.json", own)
        return own
    if status == "failed":
        return own
    deadline = time.monotonic() + OTHERS_S
    while time.monotonic() < deadline:
        for path in sorted(output.glob(".failure-*.json")):
            if (found := read_json(path)).get("status") == "failed":
                return found
        time.sleep(0.1)
    return own


def _train(session: Session, plan: StagePlan) -> None:
    from harness.training import run_stages

    session.flag.raise_if_set()
    try:
        run_stages(session, plan)
    finally:
        session.recorder.flush()


def _finished(result: Result, job: JobSpec, session: Session | None) -> Result:
    """The result with what the job did, and with the frozen files as they are now."""
    ended, after = time.time(), digests(WORKSPACE, job.frozen)
    shutil.rmtree(Path(job.output) / "scratch", ignore_errors=True)
    if after != job.frozen and result.status != "failed":
        changed = [name for name in after if after[name] != job.frozen[name]]
        error = FrozenFileError(f"frozen files changed while the job ran: {', '.join(changed)}")
        result = replace(result, status="failed", reason=str(error), failure=failure_of(error, WORKSPACE))
    result = replace(
        result,
        ended=ended,
        frozen_after=after,
        device_seconds=(ended - result.started) * max(1, len(job.resources.devices)),
    )
    if session is None:
        return result
    return replace(
        result,
        steps=session.steps,
        tokens=session.tokens,
        checkpoints=session.saved_checkpoints(),
        start=session.start,
        stop=result.stop or session.stop,
    )


def _reason(session: Session, done: bool) -> str:
    if done:
        return f"all {session.job.steps} steps done"
    asked = session.stop or {}
    return (
        f"stopped after step {session.steps} by {asked.get('id')}: {asked.get('reason') or asked.get('kind')}"
    )


def _check_frozen(asked: dict[str, str], found: dict[str, str]) -> None:
    if wrong := sorted(name for name in asked if asked[name] != found[name]):
        raise ContractError(f"frozen: {', '.join(wrong)} differ from the digests in job.json")


def _stop_flag() -> StopFlag:
    flag = StopFlag()

    def on_term(number: int, frame: FrameType | None) -> None:
        flag.count += 1

    signal.signal(signal.SIGTERM, on_term)
    return flag


def _refuse(path: Path, started: float, error: Exception) -> int:
    """Leave a failed result for a job.json that cannot be read, where its output can be made out."""
    output, job_id = path.parent, path.stem
    try:
        value: dict[str, Any] = read_json(path)
        output = Path(value["output"]) if isinstance(value.get("output"), str) else output
        job_id = str(value.get("job_id", job_id))
    except (ContractError, OSError):
        pass
    if output.is_dir():
        failure = failure_of(error, WORKSPACE)
        Result(job_id, "failed", f"{path.name}: {error}", started, time.time(), failure=failure).write(output)
    return EXIT_CODES["failed"]


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    # At exit the collector would look at every object once more: 0.8 s for nothing.
    gc.freeze()
    sys.exit(exit_code)
