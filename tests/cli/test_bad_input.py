"""Wrong input costs one line that names what is allowed and exit code 2, and leaves nothing behind."""

from pathlib import Path

import pytest

GOOD = {"--task": "math", "--budget": "2xCPUx6m"}


def run_with(**changes):
    merged = {**GOOD, **{f"--{key}": value for key, value in changes.items()}}
    return ["run", *(part for item in merged.items() for part in item)]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run"], "math"),
        (["run", "--task", "math"], "NxDxT"),
        (run_with(task="chess"), "math"),
        (run_with(budget="2xCPU"), "2xCPUx6m"),
        (run_with(budget="0xCPUx6m"), "at least 1 device"),
        (run_with(budget="64xCPUx6m"), "2 CPU cores"),
        (run_with(model="nomodel"), "tiny"),
        (run_with(model="./nofolder"), "tiny"),
        (run_with(planner="oracle"), "rules"),
        (run_with(policy="luck"), "puct"),
        (run_with(skills="nofolder"), "nofolder"),
        (run_with(seed="-1"), "seed"),
        (run_with(seed="many"), "--seed"),
        (run_with(id="../up"), "id"),
        (run_with(set="recipe.lr=1"), "recipe.learning_rate"),
        (run_with(set="train.lr=1"), "search.steps"),
        (run_with(set="recipe.learning_rate=hot"), "a number from"),
        (run_with(set="recipe.learning_rate=5"), "a number from"),
        (run_with(set="recipe.loss_type=ppo"), "dr_grpo"),
        (run_with(set="recipe.algorithm=ppo"), "grpo"),
        (run_with(set="search.mode=deep"), "watch|careful|tree"),
        (run_with(set="search.steps=0"), "search.steps"),
        (run_with(set="learning_rate"), "SECTION.KEY=VALUE"),
        (run_with(config="missing.toml"), "missing.toml"),
        (["run", "--speed", "9"], "--budget"),
        (["jump"], "run-node"),
        (["show", "nostudy"], "nostudy"),
        (["resume"], "autotrainer run"),
        (["stop"], "autotrainer run"),
        (["report"], "autotrainer run"),
        (["run-node", "math-1"], "NODE"),
    ],
)
def test_wrong_input_gets_one_line_and_creates_nothing(cli, tmp_path: Path, arguments, named):
    ended = cli(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert named in ended.err
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_budget_of_gpus_that_are_not_there_says_what_is_there_and_what_to_do(cli, tmp_path: Path):
    ended = cli("run", "--task", "math", "--budget", "8xH100x24h")
    assert ended.code == 2
    assert "8 H100" in ended.err
    assert "2 CPU cores and no NVIDIA GPU" in ended.err
    assert "--dry-run" in ended.err
    assert "--budget 2xCPUx" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_config_file_with_an_unknown_key_names_the_known_ones(cli, tmp_path: Path):
    (tmp_path / "mine.toml").write_text('task = "math"\nbudget = "2xCPUx6m"\n[search]\nsteeps = 3\n')
    ended = cli("run", "--config", "mine.toml")
    assert ended.code == 2
    assert "search.steeps" in ended.err
    assert "search.steps" in ended.err
    assert not (tmp_path / "runs").exists()


def test_a_file_in_the_place_of_the_runs_folder_is_named(cli, tmp_path: Path):
    (tmp_path / "runs").write_text("")
    ended = cli("run", "--task", "math", "--budget", "2xCPUx6m", "--runs", "runs")
    assert ended.code == 2
    assert "'runs' is a file" in ended.err


def test_a_defect_is_one_line_too_and_debug_shows_where(cli, monkeypatch):
    monkeypatch.setattr("autotrainer.cli.locate.studies", lambda runs: 1 / 0)
    ended = cli("show")
    assert ended.code == 1
    assert ended.err.count("\n") == 1
    assert "ZeroDivisionError" in ended.err
    monkeypatch.setenv("AUTOTRAINER_DEBUG", "1")
    assert "Traceback" in cli("show").err
