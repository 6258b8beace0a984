import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean

import pytest
import torch

from autotrainer.contract.models import EvalAnswer, Heartbeat, JobResult
from autotrainer.contract.paths import StudyPaths
from autotrainer.evaluation.client import EvaluatorClient
from autotrainer.evaluation.integrity import check_model
from harness.evaluate import Server, ServeSpec, main
from harness.heartbeat import Heartbeat as Pulse
from harness.prepare import main as prepare

ROOT = Path(__file__).parents[2]
TINY = ROOT / "autotrainer" / "models" / "tiny"
ASKED = {"n": 0, "samples": 4, "temperature": 1.0, "max_completion_length": 8, "seed": 7}


def serve_json(study: Path, **changes: object) -> Path:
    job = study / "evaluator" / "1"
    for folder in (job, study / "evaluator" / "requests", study / "evals"):
        folder.mkdir(parents=True, exist_ok=True)
    value = {
        "schema_version": 1,
        "job_id": "evaluator.1",
        "study_dir": str(study),
        "requests_dir": str(study / "evaluator" / "requests"),
        "evals_dir": str(study / "evals"),
        "vault_dir": str(study / "vault"),
        "task": "math",
        "control_lock": str(study / "control.lock"),
        "idle_exit_s": 0.2,
        "device": "cpu",
        "threads": 1,
        "output": str(job),
    }
    (job / "serve.json").write_text(json.dumps(value | changes))
    return job / "serve.json"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    study = tmp_path_factory.mktemp("prepared")
    (study / "prepare" / "1").mkdir(parents=True)
    value = {
        "schema_version": 1,
        "task": "math",
        "seed": 0,
        "sizes": {"train": 64, "probe": 16, "dev": 64, "holdout": 32, "test": 32},
        "model": {"path": str(TINY)},
        "data_dir": str(study / "data"),
        "vault_dir": str(study / "vault"),
        "max_completion_length": 8,
        "output": str(study / "prepare" / "1"),
    }
    (study / "prepare" / "1" / "prepare.json").write_text(json.dumps(value))
    assert prepare([str(study / "prepare" / "1" / "prepare.json")]) == 0
    torch.set_num_threads(1)
    return study


@pytest.fixture
def study(prepared, tmp_path) -> Path:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    serve_json(tmp_path)
    return tmp_path


@pytest.fixture
def client(study) -> EvaluatorClient:
    return EvaluatorClient(StudyPaths(study))


@pytest.fixture
def server(study) -> Server:
    job = study / "evaluator" / "1"
    return Server(ServeSpec.read(job / "serve.json"), Pulse(job, "evaluator.1"))


def ask(client, node="n001", split="dev", model=TINY, **changes) -> str:
    return client.request(node, 10, split, str(model), **ASKED | changes)


def place(study, request) -> Path:
    return study / "evaluator" / "requests" / f"{request}.json"


def read(study, request) -> EvalAnswer:
    node, step, split = request.rsplit("-", 2)
    return EvalAnswer.read(study / "evals" / node / f"{step}-{split}.json")


def stripped(answer: EvalAnswer) -> dict:
    return answer.model_dump(exclude={"id", "node", "started", "ended", "device_seconds"})


def test_a_checkpoint_is_scored_on_every_item_of_the_split(study, server, client):
    request = ask(client)
    server.run()
    answer = client.poll(request)
    assert (answer.n, answer.samples, len(answer.items), answer.unscorable) == (64, 4, 64, 0)
    assert 0.2 < answer.mean < 0.6 < fmean(item.greedy for item in answer.items)
    assert 0.0 <= answer.truncated < 0.2
    assert 5 * 64 * 1 < answer.tokens <= 5 * 64 * 8
    check_model(answer, TINY)
    assert not place(study, request).exists()


def test_equal_requests_get_equal_answers_whatever_was_served_between(study, server, client):
    for node, split in (("n001", "dev"), ("n002", "holdout"), ("n003", "dev")):
        server.serve(place(study, ask(client, node, split)))
    server.serve(place(study, ask(client, "n004", seed=8)))
    first, again, other = (read(study, f"{node}-10-dev") for node in ("n001", "n003", "n004"))
    assert stripped(first) == stripped(again)
    assert first.items != other.items


def test_n_takes_the_first_items_and_scores_them_the_same(study, server, client):
    server.serve(place(study, ask(client, "n001")))
    server.serve(place(study, ask(client, "n002", n=10)))
    assert read(study, "n002-10-dev").items == read(study, "n001-10-dev").items[:10]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": "train"}, "split 'train' must be one of probe, dev, holdout, test"),
        ({"model_path": "/nowhere/at/all"}, "no model folder /nowhere/at/all"),
        ({"n": 65}, "n = 65 must be at most 64"),
        ({"samples": 0}, "samples = 0 must be at least 1"),
        ({"temperature": 0.0}, "temperature = 0.0 must be above 0"),
        ({"seed": "7"}, "seed = '7' must be of type int"),
        ({"surprise": 1}, "'surprise' is missing or unknown"),
        ({"schema_version": 2}, "schema_version 2 must be 1"),
        ({"output": "/tmp/elsewhere/answer.json"}, "must be a .json file in"),
    ],
)
def test_a_bad_request_is_answered_with_an_error(study, server, client, changes, message):
    request = ask(client)
    value = json.loads(place(study, request).read_text())
    place(study, request).write_text(json.dumps(value | changes))
    server.serve(place(study, request))
    assert message in read(study, request).error
    assert not place(study, request).exists()
    assert not Path("/tmp/elsewhere").exists()


def test_a_malformed_request_is_answered_and_one_without_a_place_dropped(study, server, client):
    for name in ("n001-10-dev", "nonsense"):
        place(study, name).write_text("{")
    ask(client, "n002")
    server.run()
    assert "not JSON" in read(study, "n001-10-dev").error
    assert client.poll("n002-10-dev").error is None
    assert [path.name for path in (study / "evals").rglob("*.json")] == ["10-dev.json"] * 2
    assert not list((study / "evaluator" / "requests").iterdir())


def test_an_answer_that_is_there_is_never_computed_again(study, server, client):
    request = ask(client)
    value = place(study, request).read_text()
    answer = study / "evals" / "n001" / "10-dev.json"
    answer.parent.mkdir()
    answer.write_text("kept")
    server.serve(place(study, request))
    place(study, request).write_text("{")
    server.serve(place(study, request))
    place(study, request).write_text(value.replace('"dev"', '"train"'))
    server.serve(place(study, request))
    assert answer.read_text() == "kept"


def test_requests_are_served_in_the_order_of_their_arrival(study, server, client):
    for age, node in enumerate(("n003", "n001", "n002")):
        request = place(study, ask(client, node, n=2))
        os.utime(request, (1000 + age, 1000 + age))
    server.run()
    started = {node: read(study, f"{node}-10-dev").started for node in ("n003", "n001", "n002")}
    assert sorted(started, key=started.__getitem__) == ["n003", "n001", "n002"]


def test_a_vault_that_was_altered_is_not_scored_on(study, server, client):
    dev = study / "vault" / "dev.jsonl"
    dev.write_text("".join(dev.read_text().splitlines(keepends=True)[:10]))
    server.serve(place(study, ask(client)))
    assert "dev split is not the manifest's" in read(study, "n001-10-dev").error


def test_weights_that_are_a_pickle_are_not_loaded(study, server, client):
    model = study / "model"
    shutil.copytree(TINY, model, ignore=shutil.ignore_patterns("*.safetensors"))
    torch.save({"weights": torch.zeros(1)}, model / "pytorch_model.bin")
    server.serve(place(study, ask(client, model=model)))
    assert "holds no safetensors file" in read(study, "n001-10-dev").error


def test_other_weights_at_the_same_path_are_loaded_anew(study, server, client):
    model = study / "model"
    shutil.copytree(TINY, model)
    server.serve(place(study, ask(client, "n001", model=model)))
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-200000] + bytes(200000))
    server.serve(place(study, ask(client, "n002", model=model)))
    before, after = read(study, "n001-10-dev"), read(study, "n002-10-dev")
    assert (before.error, after.error) == (None, None)
    assert before.model_sha256 != after.model_sha256
    assert before.items != after.items


def test_it_stops_when_asked_even_while_the_control_plane_lives(study, server):
    control = {"schema_version": 1, "seq": 1, "requests": [{"id": "r1", "kind": "stop", "args": {}}]}
    (study / "evaluator" / "1" / "control.json").write_text(json.dumps(control))
    with (study / "control.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert server.run() == "asked to stop"


def test_a_bad_serve_json_fails_the_job_and_leaves_a_result(tmp_path):
    path = serve_json(tmp_path, device="abacus")
    assert main([str(path)]) == 1
    result = JobResult.read(path.parent / "result.json")
    assert (result.status, result.job_id) == ("failed", "evaluator.1")
    assert "device = 'abacus' must be cpu or cuda" in result.reason


def start(study) -> subprocess.Popen:
    path = serve_json(study)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen([sys.executable, "-m", "harness.evaluate", str(path)], env=environment)


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_the_process_serves_as_long_as_the_control_plane_lives(study, client):
    request = ask(client)
    with (study / "control.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start(study)
        wait_for(lambda: client.poll(request) is not None)
        time.sleep(1.5)
        assert process.poll() is None
        beat = Heartbeat.read(study / "evaluator" / "1" / "heartbeat.json")
        assert beat.job_id == "evaluator.1"
    assert process.wait(timeout=30) == 0
    result = JobResult.read(study / "evaluator" / "1" / "result.json")
    assert (result.status, result.steps) == ("stopped", 1)
    assert result.reason == "no control plane and no request for 0.2 s"
    assert 0 < result.device_seconds <= result.ended - result.started


@pytest.mark.slow
def test_a_process_that_is_told_to_end_leaves_a_result(study, client):
    with (study / "control.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start(study)
        wait_for((study / "evaluator" / "1" / "heartbeat.json").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    result = JobResult.read(study / "evaluator" / "1" / "result.json")
    assert (result.status, result.reason) == ("stopped", "terminated")
