"""control.json: settings that change in flight, each request answered once."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def controlled(run, job_value):
    """Run a job whose control.json is there from the beginning; returns the job and its answers by id."""

    def go(requests, **parts):
        value = job_value(**parts)
        listed = [{"id": f"r{number}", **one} for number, one in enumerate(requests, 1)]
        control = {"schema_version": 1, "seq": 1, "requests": listed}
        (Path(value["output"]) / "control.json").write_text(json.dumps(control))
        done = run(value=value)
        lines = (done.folder / "control-ack.jsonl").read_text().splitlines()
        answers = [json.loads(line) for line in lines]
        assert len({one["id"] for one in answers}) == len(answers)
        return done, {one["id"]: one for one in answers}

    return go


def ask(**args):
    return {"kind": "set", "args": args}


def test_every_regulariser_can_be_changed_in_flight(controlled):
    arguments = {"beta": 0.05, "num_iterations": 2, "use_adaptive_entropy": True, "entropy_target": 0.1}
    done, answers = controlled(
        [
            ask(learning_rate=5e-5),
            ask(beta=0.2),
            ask(epsilon=0.05),
            ask(epsilon_high=0.3),
            ask(temperature=0.7),
            ask(entropy_target=5.0),
        ],
        arguments=arguments,
        steps=4,
    )
    assert done.result["status"] == "completed"
    assert [answer["ok"] for answer in answers.values()] == [True] * 6
    assert {answer["message"] for answer in answers.values()} == {"in force from step 2"}
    assert done.series("learning_rate") == pytest.approx([1e-4, 5e-5, 5e-5, 5e-5])
    # Far below the new target the controller raises its coefficient; below the old one it could not.
    coefficients = done.series("entropy_coef")
    assert coefficients[3] > coefficients[0]
    about = json.loads((done.checkpoint(4) / "state" / "training.json").read_text())
    assert about["settings"] == {
        "learning_rate": 5e-5, "beta": 0.2, "epsilon": 0.05, "epsilon_high": 0.3, "temperature": 0.7,
        "entropy_target": 5.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"num_generations": 16},
            "num_generations cannot be changed in flight; what can: learning_rate, beta",
        ),
        ({"beta": 0.1}, "the run began with 0 and has no reference model"),
        ({"entropy_target": 0.5}, "entropy_target has no effect: the run began without use_adaptive_entropy"),
        ({"learning_rate": -1}, "learning_rate = -1 must be a finite number of at least 0"),
        ({"temperature": 0}, "temperature = 0 is not allowed"),
        ({}, "set needs args"),
    ],
)
def test_a_change_that_cannot_be_is_answered_with_its_reason_and_changes_nothing(controlled, args, message):
    done, answers = controlled([ask(**args)], steps=2)
    assert answers["r1"]["ok"] is False
    assert message in answers["r1"]["message"]
    assert done.series("learning_rate") == pytest.approx([1e-4, 1e-4])


def test_of_a_request_with_one_wrong_setting_none_is_changed(controlled):
    done, answers = controlled([ask(learning_rate=5e-5, beta=0.1)], steps=2)
    assert answers["r1"]["ok"] is False
    assert done.series("learning_rate") == pytest.approx([1e-4, 1e-4])


def test_stop_after_this_step_checkpoints_and_stop_now_does_not(controlled):
    stop, answers = controlled([{"kind": "stop", "args": {"reason": "enough"}}], steps=4)
    assert (stop.result["status"], stop.result["steps"]) == ("stopped", 1)
    assert stop.result["checkpoints"] == [{"kind": "full", "step": 1}]
    assert stop.result["stop"]["reason"] == "enough"
    assert answers["r1"]["message"] == "stopped after step 1"
    now, _ = controlled([{"kind": "stop_now", "args": {}}], steps=4)
    assert (now.result["status"], now.result["checkpoints"]) == ("stopped", [])


def test_a_checkpoint_on_request_waits_for_a_generation_boundary(controlled):
    done, answers = controlled(
        [{"kind": "checkpoint", "args": {}}],
        arguments={"num_iterations": 2},
        steps=4,
        job={"checkpoints": {"every": 4}},
    )
    assert answers["r1"] | {"time": 0} == {
        "schema_version": 1, "id": "r1", "kind": "checkpoint", "step": 2, "time": 0, "ok": True,
        "message": "checkpoints/2",
    }  # fmt: skip
    assert [one["step"] for one in done.result["checkpoints"]] == [2, 4]
