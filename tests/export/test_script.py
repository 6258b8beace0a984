"""train.py against the harness: the same path, step for step."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autotrainer.contract.models import JobSpec
from autotrainer.errors import ConfigError
from autotrainer.export.script import ScriptFacts, train_script
from autotrainer.export.segments import of_job
from autotrainer.resources import tree
from harness.contract import digests
from harness.tasks import load

ROOT = Path(__file__).parents[2]
TINY = ROOT / "autotrainer" / "models" / "tiny"
COMPARED = ("reward", "rewards/accuracy/mean", "loss", "grad_norm", "learning_rate", "entropy", "kl")
ARGUMENTS = {
    "learning_rate": 3e-4,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "steps_per_generation": 2,
    "max_completion_length": 6,
    "lr_scheduler_type": "constant",
    "warmup_steps": 2,
    "beta": 0.0,
    "use_cpu": True,
}
FORK = {
    "optimizer": "keep",
    "lr_horizon": "node",
    "rewarmup_steps": 0,
    "reference": "study_base",
    "sampler": "continue",
}
VERIFIER = {"ref": "verifier", "weight": 1.0, "params": {}}
SHAPED = {"ref": "rewards/format.py:matches", "weight": 0.2, "params": {}}
OVERLONG = {
    "point": "rewards",
    "ref": "hooks/overlong.py:SoftOverlong",
    "params": {"weight": 0.5, "margin": 0.5},
}
ZVP = {"point": "advantages", "ref": "hooks/rl_zvp.py:ZeroVariance", "params": {"scale": 0.1}}


def stage(steps, *, hooks=(), rewards=(VERIFIER,), fork=None, **arguments):
    return {
        "algorithm": "grpo",
        "steps": steps,
        "arguments": {**ARGUMENTS, **arguments},
        "hooks": list(hooks),
        "rewards": list(rewards),
        "fork": FORK | (fork or {}),
    }


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workspace")
    for name in ("harness", "sandboxes"):
        shutil.copytree(tree(name), folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for skill in ("overlong", "rl_zvp"):
        shutil.copy(tree("skills") / skill / "hook.py", folder / "harness" / "hooks" / f"{skill}.py")
    data = folder / "data"
    data.mkdir()
    for split, items in load("math").splits({"train": 40, "probe": 4}, 0).items():
        (data / f"{split}.jsonl").write_text("".join(json.dumps(item.to_row()) + "\n" for item in items))
    (data / "manifest.json").write_text("{}")
    return folder


def job_of(workspace: Path, output: Path, stages) -> JobSpec:
    data = workspace / "data"
    return JobSpec.model_validate(
        {
            "job_id": "n001.1",
            "study": "s",
            "node": "n001",
            "attempt": 1,
            "seed": 7,
            "model": {"name": "tiny", "path": str(TINY), "dtype": "float32"},
            "task": "math",
            "start": {"mode": "base"},
            "stages": stages,
            "data": {
                "train": str(data / "train.jsonl"),
                "probe": str(data / "probe.jsonl"),
                "manifest": str(data / "manifest.json"),
            },
            "probe": {"every": 2, "n": 4, "max_completion_length": 6},
            "checkpoints": {"every": 100},
            "rollouts": {"every": 1, "max_rows": 4},
            "limits": {"wall_s": 200, "phase_s": {}},
            "resources": {"device": "cpu", "devices": [], "threads": 1},
            "output": str(output),
            "frozen": digests(workspace, {}),
        }
    )


def script_of(job: JobSpec, workspace: Path, until: int) -> str:
    facts = ScriptFacts("Trains n001 of study s: math, tiny.", "math", "base", True, "cpu", 1)
    return train_script(of_job(job, until), {"n001": workspace}, facts)


def environment(path: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TQDM_DISABLE": "1",
    }


def run_both(workspace, folder, stages) -> tuple[list[dict], list[dict], str]:
    """Rows of the job, rows of its script, and the script."""
    output, export = folder / "job", folder / "export"
    output.mkdir()
    (export / "data").mkdir(parents=True)
    job = job_of(workspace, output, stages)
    job.write(output / "job.json")
    command = [sys.executable, "-m", "harness.run", str(output / "job.json")]
    done = subprocess.run(
        command, cwd=workspace, env=environment(str(workspace)), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shutil.copytree(TINY, export / "base")
    shutil.copy(workspace / "data" / "train.jsonl", export / "data")
    script = script_of(job, workspace, sum(one["steps"] for one in stages))
    (export / "train.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "train.py", "--out", "out"],
        cwd=export,
        env=environment(""),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return rows, json.loads((export / "out" / "metrics.json").read_text()), script


@pytest.mark.slow
def test_a_path_of_three_stages_with_hooks_gives_the_curve_of_its_jobs(workspace, tmp_path):
    rows, own, script = run_both(
        workspace,
        tmp_path,
        [
            stage(3),
            stage(
                3,
                hooks=[OVERLONG, ZVP],
                rewards=[VERIFIER, SHAPED],
                fork={"optimizer": "reset", "rewarmup_steps": 1},
            ),
            stage(2, beta=0.05, num_generations=2, lr_scheduler_type="linear"),
        ],
    )
    assert [row["step"] for row in own] == [row["step"] for row in rows] == list(range(1, 9))
    for row, mine in zip(rows, own, strict=True):
        for name in COMPARED:
            assert (name in row) == (name in mine)
            if name in row:
                assert mine[name] == pytest.approx(row[name], rel=1e-5, abs=1e-7), (name, row["step"])
    assert any(row["grad_norm"] > 0 for row in own[3:6])
    assert len(script.splitlines()) < 310


@pytest.mark.slow
def test_a_path_with_lora_gives_the_curve_of_its_jobs(workspace, tmp_path):
    lora = {"use_peft": True, "lora_r": 4, "lora_alpha": 8, "learning_rate": 1e-3}
    rows, own, _ = run_both(workspace, tmp_path, [stage(2, **lora), stage(2, **lora)])
    for row, mine in zip(rows, own, strict=True):
        for name in ("reward", "grad_norm", "learning_rate", "entropy"):
            assert mine[name] == pytest.approx(row[name], rel=1e-4, abs=1e-7), (name, row["step"])


def imports_of(script: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_the_script_is_short_and_imports_nothing_of_ours(workspace, tmp_path):
    script = script_of(job_of(workspace, tmp_path, [stage(3), stage(5, learning_rate=1e-4)]), workspace, 8)
    assert len(script.splitlines()) <= 155
    assert not imports_of(script) & {"autotrainer", "harness", "sandboxes", "skills"}
    hooked = script_of(job_of(workspace, tmp_path, [stage(3, hooks=[OVERLONG, ZVP])]), workspace, 3)
    assert not imports_of(hooked) & {"autotrainer", "harness", "sandboxes", "skills"}
    assert "class SoftOverlong" in hooked


def test_a_path_that_ends_within_a_stage_keeps_the_schedule_of_the_whole_stage(workspace, tmp_path):
    job = job_of(workspace, tmp_path, [stage(10, lr_scheduler_type="linear")])
    script = script_of(job, workspace, 4)
    assert "'max_steps': 4" in script
    assert "'horizon': 10" in script


def test_a_hook_that_needs_the_harness_is_refused_by_name(workspace, tmp_path):
    hook = {"point": "rollouts", "ref": "hooks/sampler_mismatch.py:SamplerMismatch", "params": {}}
    job = job_of(workspace, tmp_path, [stage(3, hooks=[hook])])
    with pytest.raises(ConfigError, match=r"sampler_mismatch\.py:SamplerMismatch at 'rollouts'"):
        script_of(job, workspace, 3)
