"""The job side's reading and writing of the contract's files."""

import json
import math
from pathlib import Path

import pytest

from harness.contract import (
    ContractError,
    JobSpec,
    Result,
    append_jsonl,
    decode_number,
    digests,
    read_json,
    split_ref,
    write_json,
)


def test_non_finite_numbers_are_strings_on_disk_at_any_depth(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [math.nan, {"y": math.inf}], "z": (-math.inf, 1.5)})
    assert read_json(tmp_path / "a.json") == {"x": ["NaN", {"y": "Infinity"}], "z": ["-Infinity", 1.5]}


def test_a_number_written_as_a_string_is_read_back_as_the_number() -> None:
    assert math.isnan(decode_number("NaN"))
    assert decode_number("-Infinity") == -math.inf
    assert decode_number("other") == "other"


def test_a_json_file_is_replaced_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"old": "x" * 1000})
    write_json(tmp_path / "a.json", {"new": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert read_json(tmp_path / "a.json") == {"new": 1}


def test_lines_are_appended_one_object_each(tmp_path: Path) -> None:
    for step in (1, 2):
        append_jsonl(tmp_path / "m.jsonl", {"step": step, "loss": math.nan})
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"step": 1, "loss": "NaN"}, {"step": 2, "loss": "NaN"}]


def test_a_missing_file_has_the_digest_missing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    found = digests(tmp_path, {"a": "", "b": ""})
    assert found == {"a": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "b": "missing"}


def test_a_job_is_read_with_its_defaults(job_value) -> None:
    job = JobSpec.of(job_value(hooks=[{"point": "loss", "ref": "hooks/x.py:X"}]))
    assert job.stages[0].fork.reference == "study_base"
    assert job.stages[0].rewards[0].weight == 1.0
    assert job.stages[0].hooks[0].params == {}
    assert job.steps == 4


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema_version",), 2, "schema_version 2 must be 1"),
        (("colour",), "red", "job has unknown keys colour"),
        (("stages",), [], "stages"),
        (("stages", 0, "steps"), 0, r"stages\[0\].steps = 0"),
        (("stages", 0, "steps"), True, r"stages\[0\].steps = True must be int"),
        (("stages", 0, "algorithm"), "ppo", r"stages\[0\].algorithm = 'ppo'"),
        (("stages", 0, "rewards"), [], r"stages\[0\].rewards is empty"),
        (("stages", 0, "rewards", 0, "weight"), "1", r"rewards\[0\].weight = '1' must be float or int"),
        (("stages", 0, "rewards", 0, "ref"), "../x.py:f", r"rewards\[0\]: ref"),
        (("stages", 0, "hooks"), [{"point": "loss", "ref": "rewards/x.py:X"}], r"hooks\[0\]: ref"),
        (("stages", 0, "hooks"), [{"point": "optimizer", "ref": "hooks/x.py:X"}], r"hooks\[0\].point"),
        (("stages", 0, "fork", "optimizer"), "half", r"stages\[0\].fork.optimizer = 'half'"),
        (("start",), {"mode": "weights"}, "needs start.path"),
        (("start",), {"mode": "resume"}, "start.mode = 'resume'"),
        (("probe", "every"), 0, "probe.every = 0"),
        (("resources", "device"), "tpu", "resources.device = 'tpu' must be one of cpu, cuda"),
        (("model",), {"name": "x", "path": "y"}, "model lacks dtype"),
        (("seed",), 1.5, "job.seed = 1.5 must be int"),
    ],
)
def test_a_wrong_field_of_a_job_is_named(job_value, path, value, message) -> None:
    job = job_value()
    place = job
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ContractError, match=message):
        JobSpec.of(job)


def test_a_ref_names_a_module_of_the_workspace() -> None:
    assert split_ref("hooks/gspo.py:Gspo", "hooks") == ("harness.hooks.gspo", "Gspo")
    for wrong in ("hooks/a/b.py:C", "hooks/../x.py:C", "os:system", "hooks/x.py"):
        with pytest.raises(ContractError):
            split_ref(wrong, "hooks")


def test_a_result_refuses_an_unknown_status(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="status = 'done'"):
        Result("n001.1", "done", "", 0.0, 1.0).write(tmp_path)


def test_a_result_has_all_keys_of_the_contract(tmp_path: Path) -> None:
    Result("n001.1", "completed", "", 0.0, 1.0).write(tmp_path)
    assert set(read_json(tmp_path / "result.json")) == {
        "schema_version",
        "job_id",
        "status",
        "reason",
        "failure",
        "steps",
        "tokens",
        "device_seconds",
        "started",
        "ended",
        "checkpoints",
        "frozen_before",
        "frozen_after",
        "start",
        "stop",
        "written_by",
    }
