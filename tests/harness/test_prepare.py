import hashlib
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from harness.prepare import PrepareRequest, main
from harness.tasks import load
from harness.tasks.files import read_items
from harness.tasks.registry import facts

ROOT = Path(__file__).parents[2]
SIZES = {"train": 64, "probe": 16, "dev": 32, "holdout": 32, "test": 32}
RESULT_KEYS = {
    *("schema_version", "job_id", "status", "reason", "failure", "steps", "tokens", "device_seconds"),
    *("started", "ended", "checkpoints", "frozen_before", "frozen_after", "start", "stop", "written_by"),
}


def request(folder: Path, **changes: object) -> Path:
    job = folder / "prepare" / "1"
    job.mkdir(parents=True)
    value = {
        "schema_version": 1,
        "task": "math",
        "seed": 0,
        "sizes": SIZES,
        "model": {"path": str(ROOT / "autotrainer" / "models" / "tiny")},
        "data_dir": str(folder / "data"),
        "vault_dir": str(folder / "vault"),
        "max_completion_length": 8,
        "output": str(job),
    }
    (job / "prepare.json").write_text(json.dumps(value | changes))
    return job / "prepare.json"


def result(path: Path) -> dict:
    return json.loads((path.parent / "result.json").read_text())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    assert main([str(request(folder))]) == 0
    return folder


def test_jobs_get_train_and_probe_and_the_vault_gets_the_rest(prepared):
    assert {path.name for path in (prepared / "data").iterdir()} == {
        "train.jsonl",
        "probe.jsonl",
        "manifest.json",
    }
    assert {path.stem for path in (prepared / "vault").iterdir()} == {"probe", "dev", "holdout", "test"}


def test_the_vault_is_closed_to_others(prepared):
    assert stat.S_IMODE((prepared / "vault").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (prepared / "vault").iterdir()} == {0o600}


def test_the_files_hold_the_tasks_own_items(prepared):
    expected = load("math").splits(SIZES, 0)
    for folder, splits in (("data", ("train", "probe")), ("vault", ("probe", "dev", "holdout", "test"))):
        for split in splits:
            assert read_items(prepared / folder / f"{split}.jsonl") == expected[split]


def test_the_manifest_has_counts_digests_and_a_clean_audit(prepared):
    manifest = json.loads((prepared / "data" / "manifest.json").read_text())
    assert {name: entry["n"] for name, entry in manifest["splits"].items()} == SIZES
    dev = (prepared / "vault" / "dev.jsonl").read_bytes()
    assert manifest["splits"]["dev"]["sha256"] == hashlib.sha256(dev).hexdigest()
    verdict = {key: manifest["audit"][key] for key in ("gold_accepted", "bad_rejected", "overlap")}
    assert verdict == {"gold_accepted": 1.0, "bad_rejected": 1.0, "overlap": 0}
    assert manifest["audit"]["near_duplicates"] == manifest["audit"]["ngram_overlap"] == 0


def test_the_manifest_measures_lengths_with_the_models_tokenizer(prepared):
    task_facts = json.loads((prepared / "data" / "manifest.json").read_text())["task_facts"]
    assert task_facts["max_completion_length"] == 8
    assert 9 <= task_facts["prompt_tokens_p99"] <= task_facts["prompt_tokens_max"] <= 14
    assert task_facts["gold_tokens_max"] == 4


def test_a_completed_job_leaves_a_result_of_the_contracts_shape(prepared):
    value = result(prepared / "prepare" / "1" / "prepare.json")
    assert set(value) == RESULT_KEYS
    assert (value["job_id"], value["status"], value["start"]) == ("prepare.1", "completed", {})


def test_preparing_again_writes_the_same_bytes(prepared, tmp_path):
    assert main([str(request(tmp_path))]) == 0
    for name in ("data/train.jsonl", "data/manifest.json", "vault/test.jsonl"):
        assert (tmp_path / name).read_bytes() == (prepared / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "maths"}, "maths"),
        ({"sizes": {"dev": 100_000}}, "1080"),
        ({"sizes": {"dev": "many"}}, "many"),
        ({"sizes": {"valid": 5}}, "valid"),
        ({"seed": 0.5}, "seed"),
        ({"max_completion_length": 3}, "max_completion_length 3"),
        ({"model": {"path": "/nowhere/at/all"}}, "/nowhere/at/all"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_request_that_cannot_be_met_fails_and_says_why(tmp_path, changes, message):
    path = request(tmp_path, **changes)
    assert main([str(path)]) == 1
    value = result(path)
    assert set(value) == RESULT_KEYS
    assert value["status"] == "failed"
    assert message in value["failure"]["message"]
    assert not (tmp_path / "data" / "manifest.json").exists()


def test_a_request_that_is_no_json_leaves_its_result_beside_it(tmp_path):
    (tmp_path / "prepare.json").write_text("{")
    assert main([str(tmp_path / "prepare.json")]) == 1
    assert result(tmp_path / "prepare.json")["status"] == "failed"


def test_a_machine_that_cannot_write_crashes_the_job(tmp_path):
    path = request(tmp_path)
    (tmp_path / "data").write_text("a file where the folder should be")
    assert main([str(path)]) == 3
    assert result(path)["status"] == "crashed"


def test_splits_without_a_size_take_the_tasks_own(tmp_path):
    value = json.loads(request(tmp_path, sizes={"dev": 10}).read_text())
    assert PrepareRequest.from_json(value).sizes == facts("math").sizes | {"dev": 10}


def test_it_runs_as_a_module(tmp_path):
    path = request(tmp_path, sizes=dict.fromkeys(SIZES, 4))
    subprocess.run([sys.executable, "-m", "harness.prepare", path], cwd=ROOT, check=True)
    assert result(path)["status"] == "completed"
    beat = json.loads((path.parent / "heartbeat.json").read_text())
    assert (beat["job_id"], beat["step"]) == ("prepare.1", 0)


def test_importing_it_loads_no_torch():
    code = "import sys, harness.prepare; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
