"""A training job from job.json to result.json."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]

RECORDER_KEYS = {
    "groups/all_correct", "groups/all_wrong", "groups/mixed", "groups/reward_variance", "advantages/mean",
    "advantages/std", "nonfinite", "lengths/p50", "lengths/p90", "lengths/p99", "eos_rate", "time/generate_s",
    "time/reward_s", "time/train_s", "memory/peak_gib", "tokens/total", "text/distinct_2", "text/repetition",
}  # fmt: skip
TRL_KEYS = {
    "loss", "grad_norm", "learning_rate", "epoch", "num_tokens", "step_time", "completions/mean_length",
    "completions/clipped_ratio", "rewards/accuracy/mean", "reward", "reward_std", "frac_reward_zero_std",
    "entropy", "clip_ratio/region_mean",
}  # fmt: skip
PROBE_KEYS = {"probe/accuracy", "kl_start", "weights/changed_share"}


@pytest.fixture(scope="module")
def base(run):
    return run(steps=5)


def test_a_job_that_ran_to_its_end_is_completed(base):
    result = base.result
    assert (result["status"], result["steps"], result["failure"]) == ("completed", 5, None)
    assert result["tokens"] == base.rows[-1]["tokens/total"] > 0
    assert result["started"] < result["ended"]


def test_every_step_has_one_row_with_trls_keys_and_the_recorders(base):
    assert base.series("step") == [1, 2, 3, 4, 5]
    for row in base.rows:
        assert row.keys() >= RECORDER_KEYS | TRL_KEYS
        assert row["schema_version"] == 1


def test_probe_keys_come_at_probe_steps_and_at_the_end(base):
    found = [row["step"] for row in base.rows if row.keys() >= PROBE_KEYS]
    assert found == [2, 4, 5]
    assert not any(PROBE_KEYS & row.keys() for row in base.rows if row["step"] not in found)


def test_the_seconds_of_a_step_add_up_to_no_more_than_the_wall_clock(base):
    parts = sum(sum(row[f"time/{part}_s"] for part in ("generate", "reward", "train")) for row in base.rows)
    probes = sum(row.get("time/probe_s", 0.0) for row in base.rows)
    assert 0 < parts + probes <= base.rows[-1]["wall_s"]
    assert all(row["time/generate_s"] > 0 for row in base.rows)


def test_drift_from_the_start_grows_from_zero(base):
    assert base.result["start"]["kl_before_first_update"] == pytest.approx(0.0, abs=1e-6)
    assert base.rows[1]["kl_start"] > 1e-5
    assert 0 < base.rows[1]["weights/changed_share"] <= base.rows[4]["weights/changed_share"] <= 1


def test_checkpoints_are_model_folders_with_state_beside_them(base):
    assert base.result["checkpoints"] == [{"step": step, "kind": "full"} for step in (2, 4, 5)]
    folder = base.checkpoint(4)
    about = json.loads((folder / "checkpoint.json").read_text())
    assert about == {"schema_version": 1, "step": 4, "stage": 0, "kind": "full"}
    assert {"config.json", "model.safetensors", "tokenizer.json", "state"} <= {
        path.name for path in folder.iterdir()
    }
    assert not [path for path in folder.parent.iterdir() if path.name.startswith(".")]


def test_rollouts_hold_what_was_generated_and_how_it_scored(base):
    rows = [
        row
        for path in (base.folder / "rollouts").glob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    assert len(rows) == 5 * 32
    assert {row["step"] for row in rows} == {1, 2, 3, 4, 5}
    for row in rows:
        assert json.loads(row["components"]) == {"accuracy": row["reward"]}
        assert row["logp_mean"] < 0
        assert row["finish_reason"] in ("stop", "length")
    first = [row for row in rows if row["step"] == 1]
    assert len({(row["group"], row["prompt_id"]) for row in first}) == 4
    mean = sum(row["reward"] for row in first) / 32
    assert mean == pytest.approx(base.rows[0]["reward"])


def test_the_heartbeat_says_which_step_and_phase(base):
    beat = json.loads((base.folder / "heartbeat.json").read_text())
    assert set(beat) == {"schema_version", "job_id", "time", "step", "phase", "phase_started", "memory_gib"}
    assert 0 < beat["memory_gib"] < 16


def test_an_unknown_argument_fails_the_job_by_name(run):
    result = run(arguments={"learning_rat": 1.0}).result
    assert result["status"] == "failed"
    assert "stages[0].arguments.learning_rat" in result["failure"]["message"]
    assert "did you mean learning_rate" in result["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output_dir": "/tmp/x"}, "stages[0].arguments.output_dir is not allowed"),
        ({"bf16": True}, "stages[0].arguments.bf16"),
        ({"num_generations": 7}, "= 32 x 1 = 32 must be a multiple of num_generations = 7"),
        (
            {"per_device_train_batch_size": 1024},
            "a generation batch needs 128 prompts, the training set has 96",
        ),
    ],
)
def test_an_argument_that_cannot_be_is_refused_with_its_reason(run, arguments, message):
    done = run(arguments=arguments)
    assert done.result["status"] == "failed"
    assert message in done.result["failure"]["message"]
    assert done.rows == []


def test_a_job_json_that_breaks_the_contract_still_leaves_a_result(run, job_value):
    value = job_value()
    value["stages"][0]["steps"] = -1
    result = run(value=value).result
    assert (result["job_id"], result["status"]) == ("n001.1", "failed")
    assert "stages[0].steps = -1" in result["reason"]


def test_a_job_whose_frozen_files_differ_does_not_start(run):
    done = run(job={"frozen": {"harness/run.py": "0" * 64}})
    assert done.result["status"] == "failed"
    assert "harness/run.py" in done.result["reason"]
    assert len(done.result["frozen_before"]["harness/run.py"]) == 64


def test_a_shaping_reward_is_weighed_into_the_reward(run):
    shaping = {"ref": "rewards/length.py:length_penalty", "weight": 0.5, "params": {"start": 0.0}}
    done = run(steps=1, rewards=[{"ref": "verifier"}, shaping])
    row = done.rows[0]
    assert row["rewards/length_penalty/mean"] == pytest.approx(-row["completions/mean_length"] / 6, abs=1e-5)
    assert row["reward"] == pytest.approx(
        row["rewards/accuracy/mean"] + 0.5 * row["rewards/length_penalty/mean"]
    )


def test_a_stop_request_makes_a_checkpoint_and_is_answered(run, job_value):
    value = job_value(steps=50, job={"checkpoints": {"every": 40}})
    ask(value, [{"id": "r1", "kind": "stop", "args": {"reason": "pruned"}}])
    done = run(value=value)
    assert (done.result["status"], done.result["steps"]) == ("stopped", 1)
    assert done.result["stop"] == {"id": "r1", "kind": "stop", "reason": "pruned"}
    assert done.result["checkpoints"] == [{"step": 1, "kind": "full"}]
    assert [(answer["id"], answer["ok"]) for answer in acks(done)] == [("r1", True)]


def test_stop_now_leaves_no_checkpoint(run, job_value):
    value = job_value(steps=50, job={"checkpoints": {"every": 40}})
    ask(value, [{"id": "r1", "kind": "stop_now", "args": {}}])
    done = run(value=value)
    assert (done.result["status"], done.result["checkpoints"]) == ("stopped", [])


def test_settings_change_in_flight_and_every_request_is_answered_once(run, job_value):
    value = job_value(steps=3, arguments={"beta": 0.1})
    ask(value, [
        {"id": "r1", "kind": "set", "args": {"learning_rate": 3e-5, "temperature": 0.5}},
        {"id": "r2", "kind": "set", "args": {"num_generations": 4}},
        {"id": "r3", "kind": "dance", "args": {}},
        {"id": "r4", "kind": "checkpoint", "args": {}},
    ])  # fmt: skip
    done = run(value=value)
    assert done.series("learning_rate") == [1e-4, 3e-5, 3e-5]
    answers = {answer["id"]: answer for answer in acks(done)}
    assert {key: answer["ok"] for key, answer in answers.items()} == {
        "r1": True,
        "r2": False,
        "r3": False,
        "r4": True,
    }
    assert len(acks(done)) == 4
    assert "what can" in answers["r2"]["message"]
    assert done.checkpoint(1).is_dir()


def test_a_lower_temperature_set_in_flight_reaches_generation_and_loss(run, job_value):
    value = job_value(steps=2, arguments={"learning_rate": 0.0})
    ask(value, [{"id": "r1", "kind": "set", "args": {"temperature": 0.05}}])
    done = run(value=value)
    assert done.rows[1]["entropy"] < 0.3 * done.rows[0]["entropy"]
    assert done.rows[1]["frac_reward_zero_std"] > done.rows[0]["frac_reward_zero_std"]


def test_a_checkpoint_waits_for_the_end_of_a_generation_batch(run):
    done = run(steps=6, arguments={"num_iterations": 3}, job={"checkpoints": {"every": 2}})
    assert [item["step"] for item in done.result["checkpoints"]] == [3, 6]


def test_two_stages_count_their_steps_on_and_hand_over_their_weights(run, job_value):
    value = job_value(steps=2)
    second = json.loads(json.dumps(value["stages"][0]))
    second["arguments"]["learning_rate"] = 2e-5
    second["fork"] = {"optimizer": "reset", "rewarmup_steps": 0}
    done = run(value={**value, "stages": [value["stages"][0], second]})
    assert (done.result["status"], done.result["steps"]) == ("completed", 4)
    assert [(row["step"], row["stage"]) for row in done.rows] == [(1, 0), (2, 0), (3, 1), (4, 1)]
    assert done.series("learning_rate") == [1e-4, 1e-4, 2e-5, 2e-5]
    assert done.result["tokens"] > done.rows[-1]["tokens/total"]


# ---- in a process of their own: 6 s each, most of it imports


@pytest.fixture
def workspace(tmp_path):
    """A node's copy of the harness, with a hook that fails in its second step."""
    shutil.copytree(
        ROOT / "harness", tmp_path / "w" / "harness", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "w" / "harness" / "hooks" / "bad.py").write_text(
        "class Bad:\n    def group(self, inputs):\n        if inputs.step == 2:\n            return 1 / 0\n"
        "        return inputs.advantages_P_G\n"
    )
    return tmp_path / "w"


def start(workspace, value):
    folder = Path(value["output"])
    (folder / "job.json").write_text(json.dumps(value))
    return subprocess.Popen(
        [sys.executable, "-m", "harness.run", str(folder / "job.json")], cwd=workspace,
        env={**os.environ, "PYTHONPATH": str(workspace), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_request_to_set_several_things_is_done_whole_or_not_at_all(run, job_value):
    value = job_value(steps=2)
    ask(value, [{"id": "r1", "kind": "set", "args": {"learning_rate": 3e-5, "beta": 0.5}}])
    done = run(value=value)
    assert "no reference model" in acks(done)[0]["message"]
    assert done.series("learning_rate") == [1e-4, 1e-4]


def test_a_stop_that_comes_with_the_last_step_leaves_a_completed_job(run, job_value):
    value = job_value(steps=1)
    ask(value, [{"id": "r1", "kind": "stop_now", "args": {}}])
    done = run(value=value)
    assert (done.result["status"], done.result["checkpoints"]) == ("completed", [{"step": 1, "kind": "full"}])


@pytest.mark.slow
def test_a_failing_hook_fails_the_job_with_its_file_and_line(workspace, job_value):
    value = job_value(hooks=[{"point": "advantages", "ref": "hooks/bad.py:Bad"}])
    assert start(workspace, value).wait(timeout=90) == 1
    result = json.loads((Path(value["output"]) / "result.json").read_text())
    assert result["status"] == "failed"
    assert result["failure"] == {
        "type": "ZeroDivisionError", "message": "division by zero", "file": "harness/hooks/bad.py", "line": 4,
    }  # fmt: skip
    assert result["steps"] == 1


@pytest.mark.slow
def test_sigterm_stops_a_job_with_a_checkpoint(workspace, job_value):
    value = job_value(steps=5000, job={"checkpoints": {"every": 4000}, "probe": {
        "every": 4000, "n": 4, "max_completion_length": 6,
    }})  # fmt: skip
    process, metrics = start(workspace, value), Path(value["output"]) / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    result = json.loads((Path(value["output"]) / "result.json").read_text())
    assert (result["status"], result["stop"]["id"]) == ("stopped", "SIGTERM")
    assert [item["step"] for item in result["checkpoints"]] == [result["steps"]]


def ask(value, requests):
    control = {"schema_version": 1, "seq": len(requests), "requests": requests}
    (Path(value["output"]) / "control.json").write_text(json.dumps(control))


def acks(done):
    return [json.loads(line) for line in (done.folder / "control-ack.jsonl").read_text().splitlines()]
