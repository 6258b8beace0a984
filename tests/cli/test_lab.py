"""init, watch, show --diff, export and nearest names at the command line."""

import tomllib
from pathlib import Path

import pytest

from autotrainer.testing.sample_study import write_running_study, write_sample_study


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return write_sample_study(tmp_path / "runs" / "sample")


def test_a_lab_is_complete_and_nothing_is_overwritten(cli, tmp_path):
    assert cli("init", "lab").code == 0
    lab = tmp_path / "lab"
    assert tomllib.loads((lab / "study.toml").read_text())["task"] == "math"
    assert (lab / "skills" / "prefer_short" / "hook.py").is_file()
    again = cli("init", "lab")
    assert again.code == 2
    assert "study.toml is there" in again.err


def test_the_lab_s_skill_passes_its_check_and_its_study_can_be_planned(cli, tmp_path, monkeypatch):
    cli("init")
    assert cli("skills", "check", "skills/prefer_short").code == 0
    assert "nothing was started" in cli("run", "--config", "study.toml", "--dry-run").out


def test_watch_prints_jobs_budget_and_decisions_once(cli, tmp_path):
    write_running_study(tmp_path / "runs" / "going")
    out = cli("watch", "--once").out
    for words in ("n009", "34/60", "reward", "entropy", "probe", "device time used", "n008 completed"):
        assert words in out


def test_watch_of_a_finished_study_ends_with_its_result(cli, sample):
    ended = cli("watch")
    assert ended.code == 0
    assert "Search paid" in ended.out


def test_the_difference_of_two_nodes_is_their_settings(cli, sample):
    out = cli("show", "n007", "--diff").out
    assert "learning_rate  1e-4  2e-4" in out
    assert "larger" not in out
    assert "num_generations" in cli("show", "n007", "--diff", "--against", "n001").out
    assert cli("show", "--diff").code == 2


def test_an_export_that_is_impossible_says_what_to_do(cli, sample, tmp_path):
    ended = cli("export", "--out", "out")
    assert ended.code == 2
    assert "autotrainer run-node sample n015" in ended.err
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    assert "not an empty folder" in cli("export", "--out", "full").err
    assert cli("export", "--node", "n099").code == 2


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("shwo",), "did you mean show?"),
        (("run", "--buget", "1xCPUx1m"), "did you mean --budget?"),
        (("show", "sampel"), "did you mean sample?"),
        (
            ("run", "--task", "math", "--budget", "1xCPUx1m", "--set", "recipe.learning_rat=1"),
            "recipe.learning_rate?",
        ),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest_right_one(cli, sample, arguments, wanted):
    ended = cli(*arguments)
    assert ended.code == 2
    assert wanted in ended.err
    assert len(ended.err.splitlines()) == 1


def test_every_command_s_help_has_an_example_or_is_short(cli):
    out = cli("--help").out
    assert "autotrainer run --task math --budget 2xCPUx6m" in out
    for name in ("run", "show", "watch", "init", "ui", "export", "doctor"):
        assert name in out
