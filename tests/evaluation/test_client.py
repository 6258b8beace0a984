import json

import pytest

from autotrainer.contract.models import EvalAnswer, EvalRequest
from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import EvaluationError
from autotrainer.evaluation.client import EvaluatorClient
from autotrainer.evaluation.integrity import check_model, weights_sha256

ASKED = {"n": 2, "samples": 2, "temperature": 1.0, "max_completion_length": 8, "seed": 7}
GOOD = {
    "schema_version": 1,
    "id": "n001-40-dev",
    "node": "n001",
    "step": 40,
    "split": "dev",
    "n": 2,
    "samples": 2,
    "temperature": 1.0,
    "seed": 7,
    "items": [
        {"id": "a", "scores": [1.0, 0.0], "greedy": 1.0},
        {"id": "b", "scores": [1.0, None], "greedy": None},
    ],
    "mean": 0.5,
    "unscorable": 1,
    "truncated": 0.25,
    "tokens": 12,
    "device_seconds": 0.5,
    "started": 1.0,
    "ended": 1.5,
    "model_sha256": "0" * 64,
    "error": None,
}


@pytest.fixture
def paths(tmp_path):
    return StudyPaths(tmp_path)


@pytest.fixture
def client(paths):
    return EvaluatorClient(paths)


def answered(paths, split="dev", **changes):
    place = paths.eval_answer("n001", 40, split)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(GOOD | {"id": f"n001-40-{split}", "split": split} | changes))


def test_a_request_is_written_once_and_says_where_the_answer_goes(client, paths):
    assert client.request("n001", 40, "dev", "/m", **ASKED) == "n001-40-dev"
    place = paths.eval_requests / "n001-40-dev.json"
    before = place.stat().st_mtime_ns
    assert EvalRequest.read(place).output == str(paths.eval_answer("n001", 40, "dev"))
    assert client.request("n001", 40, "dev", "/m", **ASKED) == "n001-40-dev"
    assert place.stat().st_mtime_ns == before


def test_nothing_is_asked_that_is_answered(client, paths):
    answered(paths)
    client.request("n001", 40, "dev", "/m", **ASKED)
    assert not paths.eval_requests.exists()


def test_a_request_that_breaks_the_contract_is_refused_before_it_is_sent(client, paths):
    with pytest.raises(EvaluationError, match="samples"):
        client.request("n001", 40, "dev", "/m", **ASKED | {"samples": 0})
    assert not paths.eval_requests.exists()


def test_there_is_no_answer_before_it_is_there(client):
    assert client.poll("n001-40-dev") is None
    with pytest.raises(EvaluationError, match="must be <node>-<step>-<split>"):
        client.poll("n001")


def test_the_score_is_the_mean_over_items_and_the_unscorable_counts_as_wrong(client, paths):
    answered(paths)
    score = client.score(client.poll("n001-40-dev"))
    assert score.items == {"a": 0.5, "b": 0.5}
    assert (score.mean, score.greedy, score.split, score.samples, score.seeds) == (0.5, 0.5, "dev", 2, (7,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"error": "OSError: no model"}, "no model"),
        ({"node": "n002"}, "says n002 step 40"),
        ({"n": 3}, "2 items, 2 of them distinct, where n is 3"),
        ({"items": [], "n": 0}, "0 items"),
        ({"items": [GOOD["items"][0]] * 2}, "1 of them distinct"),
        ({"samples": 3}, "item a has not 3 samples"),
        ({"items": [{"id": "a", "scores": [7.0, 0.0], "greedy": 1.0}, GOOD["items"][1]]}, "7.0 is not in"),
        ({"mean": 0.9}, "the mean of its items is 0.5, it says 0.9"),
        ({"mean": "NaN"}, "it says nan"),
        ({"unscorable": 0}, "1 unscorable samples, it says 0"),
        ({"model_sha256": ""}, "is not a SHA-256"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_an_answer_that_does_not_add_up_is_refused(client, paths, changes, message):
    answered(paths, **changes)
    with pytest.raises(EvaluationError, match=message):
        client.poll("n001-40-dev")


def test_a_torn_answer_is_refused_and_not_an_exception_of_json(client, paths):
    answered(paths)
    place = paths.eval_answer("n001", 40, "dev")
    place.write_text(place.read_text()[:50])
    with pytest.raises(EvaluationError, match="not JSON"):
        client.poll("n001-40-dev")


def test_a_checkpoint_that_changed_between_two_splits_is_noticed(client, paths):
    answered(paths)
    answered(paths, "holdout")
    assert client.answer("n001", 40, "holdout").split == "holdout"
    answered(paths, "test", model_sha256="1" * 64)
    with pytest.raises(EvaluationError, match="its weights changed: 111111111111 and 000000000000"):
        client.answer("n001", 40, "test")


def test_an_answer_is_held_to_the_weights_it_speaks_of(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    answer = EvalAnswer.model_validate(GOOD | {"model_sha256": weights_sha256(tmp_path)})
    check_model(answer, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(EvaluationError, match="is about weights"):
        check_model(answer, tmp_path)
