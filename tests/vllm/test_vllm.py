"""Training through a real vLLM: weights reach it after forks, resumes and merges; stale ones are seen.

Runs where vLLM is installed: `make test-vllm` (CPU) makes an environment for it. Each job is a process of
its own.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.conftest import ROOT, data, job_value, read  # noqa: F401

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]
VLLM = {
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.2,
    "learning_rate": 2e-3,
    "vllm_importance_sampling_correction": False,
}
SYNCED = 0.03
"""Nats a token by which a synchronised engine differs from the trainer."""


@pytest.fixture(scope="module")
def launch(job_value):  # noqa: F811
    def go(sync: str = "none", **parts):
        parts["arguments"] = VLLM | parts.get("arguments", {})
        value = job_value(**parts)
        path = Path(value["output"]) / "job.json"
        path.write_text(json.dumps(value))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        program = [sys.executable, str(Path(__file__).with_name("run_job.py")), str(path), sync]
        done = subprocess.run(
            program, cwd=ROOT, env=environment, timeout=280, capture_output=True, text=True, check=False
        )
        (Path(value["output"]) / "said.log").write_text(done.stdout + done.stderr)
        return read(Path(value["output"]))

    return go


@pytest.fixture(scope="module")
def parent(launch):
    return launch(steps=6)


def at(done, step, mode="weights"):
    return {"start": {"mode": mode, "node": "n001", "step": step, "path": str(done.checkpoint(step))}}


def test_weights_are_synchronised_in_every_step(parent):
    assert parent.result["status"] == "completed"
    assert max(parent.series("sampler/gap_mean")) < SYNCED
    assert parent.rows[-1]["kl_start"] > 0.001


@pytest.mark.parametrize(("mode", "steps"), [("exact", 8), ("weights", 2)])
def test_a_resume_and_a_fork_sample_from_the_loaded_policy(launch, parent, mode, steps):
    done = launch(steps=steps, job=at(parent, 6, mode))
    assert done.result["status"] == "completed"
    assert max(done.series("sampler/gap_mean")) < SYNCED


def test_an_engine_that_keeps_the_base_fails_a_fork_before_its_first_update(launch, parent):
    done = launch("all", steps=2, job=at(parent, 6), arguments={"beta": 0.01})
    assert done.result["status"] == "failed"
    assert done.result["failure"]["type"] == "SamplerGapError"
    assert done.rows == []


def test_weights_that_go_stale_later_are_seen_in_the_record(launch):
    done = launch("later", steps=4, arguments={"learning_rate": 3e-3})
    gaps = done.series("sampler/gap_mean")
    assert gaps[0] < SYNCED
    assert gaps[-1] > 0.05


def test_an_adapter_is_merged_into_the_engine_and_out_of_it_again(launch):
    lora = {"use_peft": True, "lora_r": 4}
    first = launch(steps=2, arguments=lora)
    assert first.result["status"] == "completed"
    assert max(first.series("sampler/gap_mean")) < SYNCED
    fork = {"optimizer": "reset"}
    merged = launch(steps=2, arguments=lora | {"lora_r": 8}, job=at(first, 2), fork=fork)
    assert merged.result["status"] == "completed"
    assert max(merged.series("sampler/gap_mean")) < SYNCED
