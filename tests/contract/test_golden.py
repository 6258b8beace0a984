"""Golden copies of the contract's files: the control plane and the jobs read and write them alike."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import harness.contract as job_side
from autotrainer import files
from autotrainer.contract import models
from autotrainer.contract.metrics import Metrics
from autotrainer.errors import AutotrainerError, ContractError
from autotrainer.tree.event import Event
from harness.control import Control
from harness.evaluate import ServeSpec
from harness.evaluator import EvalRequest, refusal
from harness.heartbeat import Heartbeat
from harness.prepare import PrepareRequest
from harness.tasks.api import Item

GOLDEN = Path(__file__).parent / "golden"
MODELS: dict[str, type[models.ContractFile]] = {
    "launch": models.LaunchSpec,
    "supervisor": models.SupervisorRecord,
    "job": models.JobSpec,
    "result": models.JobResult,
    "result-failed": models.JobResult,
    "heartbeat": models.Heartbeat,
    "control": models.Control,
    "manifest": models.Manifest,
    "eval-request": models.EvalRequest,
    "eval-answer": models.EvalAnswer,
    "eval-error": models.EvalAnswer,
}
READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "job": job_side.JobSpec.of,
    "eval-request": EvalRequest.of,
    "prepare": PrepareRequest.from_json,
    "items": Item.from_row,
}
"""What a job reads strictly, from the parsed file; serve.json is read from its path."""


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return found


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]


def parsed(name: str) -> dict[str, Any]:
    return lines(name)[0] if (GOLDEN / f"{name}.jsonl").is_file() else golden(name)


def refuse_bare(token: str) -> None:
    raise AssertionError(f"bare {token}")


@pytest.mark.parametrize("name", MODELS)
def test_the_control_plane_reads_a_file_and_writes_the_same_bytes(name, tmp_path):
    MODELS[name].read(GOLDEN / f"{name}.json").write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (GOLDEN / f"{name}.json").read_bytes()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_both_sides_write_the_same_bytes_for_the_same_document(path, tmp_path):
    files.write_json(tmp_path / "one.json", files.read_json(path))
    job_side.write_json(tmp_path / "other.json", job_side.read_json(path))
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "other.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.name)
def test_every_file_has_the_version_and_no_bare_non_finite_number(path):
    texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    for text in texts:
        assert json.loads(text, parse_constant=refuse_bare)["schema_version"] == 1


def test_both_sides_read_a_job_to_equal_values(tmp_path):
    mine, theirs = models.JobSpec.read(GOLDEN / "job.json"), job_side.JobSpec.read(GOLDEN / "job.json")
    assert mine.model_dump() == asdict(theirs)
    job_side.write_json(tmp_path / "job.json", asdict(theirs))
    assert (tmp_path / "job.json").read_bytes() == (GOLDEN / "job.json").read_bytes()


@pytest.mark.parametrize("name", ["result", "result-failed"])
def test_a_job_writes_the_result_that_the_control_plane_reads(name, tmp_path):
    fields = {key: item for key, item in golden(name).items() if key not in ("schema_version", "written_by")}
    fields["device_seconds"] = job_side.decode_number(fields["device_seconds"])
    job_side.Result(**fields).write(tmp_path)
    assert (tmp_path / "result.json").read_bytes() == (GOLDEN / f"{name}.json").read_bytes()
    read = models.JobResult.read(tmp_path / "result.json")
    assert read.device_seconds == fields["device_seconds"] or math.isnan(fields["device_seconds"])
    assert math.isnan(read.device_seconds) == (name == "result-failed")


def test_both_sides_read_an_evaluation_request_to_equal_values():
    theirs = EvalRequest.of(golden("eval-request"))
    assert models.EvalRequest.read(GOLDEN / "eval-request.json").model_dump(exclude={"schema_version"}) == (
        asdict(theirs)
    )


def test_a_refusal_of_the_evaluator_is_an_answer_of_the_contract():
    header = EvalRequest.of(golden("eval-request")).header()
    times = {"started": 1760000100.0, "ended": 1760000100.0}
    assert {**refusal(header, "there is no model folder"), **times} == golden("eval-error")


def test_a_job_s_heartbeat_has_the_golden_keys(tmp_path):
    with Heartbeat(tmp_path, "n003.1") as heartbeat, heartbeat.phase("generate"):
        pass
    assert set(job_side.read_json(tmp_path / "heartbeat.json")) == set(golden("heartbeat"))
    assert models.Heartbeat.read(tmp_path / "heartbeat.json").job_id == "n003.1"


def test_a_job_reads_the_requests_that_the_control_plane_writes_and_answers_with_the_golden_keys(tmp_path):
    control = (
        models.Control().with_request("set", learning_rate=0.00005).with_request("stop", reason="behind")
    )
    control.write(tmp_path / "control.json")
    assert (tmp_path / "control.json").read_bytes() == (GOLDEN / "control.json").read_bytes()
    polled = Control(tmp_path)
    requests = polled.poll(21)
    assert [asdict(request) for request in requests] == golden("control")["requests"]
    polled.answer(requests[0], 21, True, "learning_rate = 5e-05")
    (answer,) = files.read_jsonl(tmp_path / "control-ack.jsonl")
    assert {**answer, "time": 1760000051.0} == lines("control-ack")[0]


def test_a_job_reads_serve_and_prepare():
    served, asked = ServeSpec.read(GOLDEN / "serve.json"), golden("serve")
    assert {"schema_version": 1, **asdict(served)} == asked
    request, wanted = PrepareRequest.from_json(golden("prepare")), golden("prepare")
    assert (request.task, request.seed, request.model_path) == ("math", 7, wanted["model"]["path"])
    assert {name: request.sizes[name] for name in wanted["sizes"]} == wanted["sizes"]
    assert (str(request.data_dir), str(request.vault_dir)) == (wanted["data_dir"], wanted["vault_dir"])


def test_items_are_read_and_written_back_equal():
    assert [Item.from_row(row).to_row() for row in lines("items")] == lines("items")


def test_the_journal_s_lines_are_read_and_written_back_equal():
    assert [Event.from_json(row).to_json() for row in lines("journal")] == lines("journal")


def test_metrics_mean_the_same_to_both_sides(tmp_path):
    metrics = Metrics.read(GOLDEN / "metrics.jsonl")
    assert metrics.series("loss") == [(1, 0.125)]
    assert set(metrics.nonfinite()) == {(2, "loss"), (2, "reward"), (2, "grad_norm")}
    last = metrics.rows[1]
    assert math.isnan(last["loss"])
    assert (last["reward"], last["grad_norm"]) == (-math.inf, math.inf)
    assert (lines("metrics")[1]["loss"], lines("metrics")[1]["reward"]) == ("NaN", "-Infinity")
    for row in metrics.rows:
        job_side.append_jsonl(tmp_path / "metrics.jsonl", row)
    assert (tmp_path / "metrics.jsonl").read_bytes() == (GOLDEN / "metrics.jsonl").read_bytes()
    text = "".join(f"{files.dumps(row)}\n" for row in metrics.rows)
    assert text.encode() == (GOLDEN / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_both_sides_have_one_policy_for_non_finite_numbers(value, text):
    assert files.encode({"x": [value]}) == job_side.encode({"x": (value,)}) == {"x": [text]}
    for side in (files, job_side):
        assert (
            math.isnan(side.decode_number(text)) if math.isnan(value) else side.decode_number(text) == value
        )


@pytest.mark.parametrize("change", [{"schema_version": 2}, {"surprise": 1}])
@pytest.mark.parametrize("name", MODELS)
def test_the_control_plane_refuses_another_version_and_an_unknown_key(name, change, tmp_path):
    files.write_json(tmp_path / "x.json", {**golden(name), **change})
    with pytest.raises(ContractError, match=next(iter(change))):
        MODELS[name].read(tmp_path / "x.json")


@pytest.mark.parametrize("change", [{"schema_version": 2}, {"surprise": 1}])
@pytest.mark.parametrize("name", READERS)
def test_a_job_refuses_another_version_and_an_unknown_key(name, change):
    READERS[name](parsed(name))
    with pytest.raises(ValueError, match=next(iter(change))):
        READERS[name]({**parsed(name), **change})


@pytest.mark.parametrize("change", [{"schema_version": 2}, {"surprise": 1}])
def test_the_evaluator_refuses_another_version_and_an_unknown_key(change, tmp_path):
    job_side.write_json(tmp_path / "serve.json", {**golden("serve"), **change})
    with pytest.raises(job_side.ContractError, match=next(iter(change))):
        ServeSpec.read(tmp_path / "serve.json")


def test_the_journal_refuses_another_version():
    with pytest.raises(AutotrainerError, match="version"):
        Event.from_json({**lines("journal")[0], "schema_version": 2})
