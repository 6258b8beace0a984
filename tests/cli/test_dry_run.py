import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("budget", "model"), [("2xCPUx6m", "tiny"), ("8xH100x24h", "Qwen/Qwen2.5-1.5B-Instruct")]
)
def test_a_dry_run_prints_plan_and_cost_and_creates_nothing(cli, tmp_path: Path, budget, model):
    ended = cli("run", "--task", "math", "--budget", budget, "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert f"model {model}" in ended.out
    assert "mode tree" in ended.out
    assert "nothing was started" in ended.out
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_as_json_has_the_plan(cli):
    ended = cli(
        "run", "--task", "math", "--budget", "2xCPUx6m", "--dry-run", "--json", "--set", "search.steps=33"
    )
    plan = json.loads(ended.out)
    assert plan["schema_version"] == 1
    assert plan["budget"]["device_s"] == 720
    assert plan["plan"]["steps"] == 33
    assert plan["plan"]["cost"]["step_s"] > 0


def test_a_dry_run_refuses_what_a_run_refuses(cli):
    assert (
        cli("run", "--task", "math", "--budget", "8xH100x24h", "--dry-run", "--planner", "oracle").code == 2
    )
