"""Several processes: accelerate launch with two CPU processes (gloo) trains, records once, resumes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from tests.harness.conftest import ROOT, read

pytestmark = pytest.mark.slow
ARGUMENTS = {"per_device_train_batch_size": 16, "beta": 0.05, "num_iterations": 2, "token_budget": 96}


@pytest.fixture(scope="module")
def launch(job_value):
    """Run a job under accelerate's launcher; the hooks folder of a copy of the harness takes `hook`."""

    def go(folder: Path = ROOT, options=("--multi_gpu", "--num_processes", "2"), **parts):
        value = job_value(**parts)
        path = Path(value["output"]) / "job.json"
        path.write_text(json.dumps(value))
        launcher = ["-m", "accelerate.commands.launch", *options, "--num_machines", "1"]
        rest = ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
        environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        subprocess.run(
            [sys.executable, *launcher, *rest, "-m", "harness.run", str(path)],
            cwd=folder, env=environment, timeout=120, capture_output=True, check=False,
        )  # fmt: skip
        return read(Path(value["output"]))

    return go


@pytest.fixture(scope="module")
def two(launch):
    return launch(arguments=ARGUMENTS, steps=4)


def test_two_processes_train_and_record_once(two):
    assert two.result["status"] == "completed"
    assert two.series("step") == [1, 2, 3, 4]
    assert two.result["checkpoints"] == [{"kind": "full", "step": 2}, {"kind": "full", "step": 4}]
    assert (two.checkpoint(4) / "state" / "rng.1.pt").is_file()


def test_metrics_are_of_both_processes(two):
    rows = [
        row
        for file in sorted((two.folder / "rollouts").glob("*.parquet"))
        for row in pq.read_table(file).to_pylist()
        if row["step"] == 1
    ]
    first = two.rows[0]
    assert len(rows) == 32
    assert len({row["prompt_id"] for row in rows}) == 4
    assert first["reward"] == pytest.approx(sum(row["reward"] for row in rows) / 32)
    assert first["tokens/generated"] == sum(row["tokens"] for row in rows) == first["tokens/trained"]
    assert first["eos_rate"] == sum(row["finish_reason"] == "stop" for row in rows) / 32
    assert all(row["logp_mean"] is not None for row in rows)
    for group in range(4):
        own = [row["advantage"] for row in rows if row["group"] == group]
        assert sum(own) == pytest.approx(0.0, abs=1e-3)


def test_two_processes_resume_to_the_bit(two, launch):
    start = {"mode": "exact", "node": "n001", "step": 2, "path": str(two.checkpoint(2))}
    rest = launch(arguments=ARGUMENTS, steps=4, job={"start": start})
    assert rest.series("grad_norm") == two.series("grad_norm")[2:]
    one, other = (load_file(done.checkpoint(4) / "model.safetensors") for done in (two, rest))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_an_exact_resume_with_another_number_of_processes_is_refused(two, run):
    start = {"mode": "exact", "node": "n001", "step": 2, "path": str(two.checkpoint(2))}
    done = run(arguments=ARGUMENTS, steps=4, job={"start": start})
    assert "the checkpoint is of 2 processes, the job has 1" in done.result["reason"]


def test_a_hook_that_fails_in_another_process_is_named(launch, tmp_path):
    import shutil

    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=ignored)
    (tmp_path / "harness" / "hooks" / "breaks.py").write_text(
        "import os\n"
        "class Breaks:\n"
        "    def tokens(self, inputs):\n"
        "        if os.environ['RANK'] == '1':\n"
        "            raise KeyError('only here')\n"
        "        return inputs.advantages[:, None].expand_as(inputs.logps_B_T)\n"
    )
    hooks = [{"point": "advantages", "ref": "hooks/breaks.py:Breaks", "params": {}}]
    done = launch(tmp_path, arguments=ARGUMENTS, steps=2, hooks=hooks)
    assert done.result["status"] == "failed"
    assert done.result["failure"]["message"] == "'only here'"
    assert (done.result["failure"]["file"], done.result["failure"]["line"]) == ("harness/hooks/breaks.py", 5)


def test_a_launcher_that_starts_one_process_of_two_is_refused(launch):
    done = launch(options=("--cpu", "--num_processes", "2"), steps=1)
    assert done.result["status"] == "failed"
    assert "accelerate launch --multi_gpu" in done.result["reason"]
