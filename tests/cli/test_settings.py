from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrainer.cli.settings import (
    LARGE_GPU_MODEL,
    SMALL_GPU_MODEL,
    Flags,
    build_config,
    default_model,
    parse_value,
)
from autotrainer.errors import ConfigError

ASKED = Flags(task="math", budget="2xCPUx6m")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("64", 64),
        ("true", True),
        ('"64"', "64"),
        ("dr_grpo", "dr_grpo"),
        ("True", "True"),
        ("", ""),
        ("[1]", "[1]"),
        ("{a = 1}", "{a = 1}"),
        ("1\nother = 2", "1\nother = 2"),
        ("2026-01-01", "2026-01-01"),
    ],
)
def test_a_value_is_a_toml_scalar_or_else_its_own_text(text, value):
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


@given(st.text())
def test_any_text_gives_a_scalar(text):
    assert isinstance(parse_value(text), bool | int | float | str)


def test_settings_end_in_their_sections(tmp_path: Path):
    flags = Flags(
        task="math",
        budget="2xCPUx6m",
        settings=("recipe.learning_rate=1e-3", "search.steps=40", "budget.slots=1"),
    )
    config = build_config(flags, tmp_path)
    assert config.recipe == {"learning_rate": 1e-3}
    assert (config.search.steps, config.budget.slots) == (40, 1)


def test_the_last_of_two_equal_settings_wins(tmp_path: Path):
    flags = Flags(task="math", budget="2xCPUx6m", settings=("search.steps=40", "search.steps=50"))
    assert build_config(flags, tmp_path).search.steps == 50


def test_flags_override_the_config_file_and_settings_override_both(tmp_path: Path):
    file = tmp_path / "study.toml"
    file.write_text(
        'task = "math"\nbudget = "1xCPUx9m"\nseed = 3\nplanner = "random"\n[search]\nsteps = 10\ndrafts = 1\n'
    )
    config = build_config(Flags(config=file, seed=4, settings=("search.steps=20",)), tmp_path)
    assert (config.budget_text, config.seed, config.planner) == ("1xCPUx9m", 4, "random")
    assert (config.search.steps, config.search.drafts) == (20, 1)


def test_the_frozen_config_of_a_study_can_be_run_again_under_another_id(tmp_path: Path):
    first = build_config(
        Flags(task="math", budget="2xCPUx6m", study="one", seed=7, settings=("recipe.beta=0.1",)), tmp_path
    )
    file = tmp_path / "study.toml"
    file.write_text(first.to_toml())
    again = build_config(Flags(config=file, study="two"), tmp_path)
    assert again.model_copy(update={"id": "one"}) == first


def test_folders_become_absolute_so_that_a_study_resumes_from_anywhere(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    config = build_config(
        Flags(task="math", budget="2xCPUx6m", model="model", skills=(Path("mine"),)), tmp_path
    )
    assert config.model == str(tmp_path / "model")
    assert config.skills_dirs == (str(tmp_path / "mine"),)


@pytest.mark.parametrize(
    ("budget", "model"),
    [
        ("2xCPUx6m", "tiny"),
        ("1xH100x1h", SMALL_GPU_MODEL),
        ("8xH100x24h", LARGE_GPU_MODEL),
        ("1xL4x3d", SMALL_GPU_MODEL),
    ],
)
def test_the_default_model_fits_the_budget(budget, model):
    assert default_model(budget) == model


def test_ids_carry_task_and_time_and_are_unique(tmp_path: Path):
    first = build_config(ASKED, tmp_path).id
    (tmp_path / first).mkdir()
    second = build_config(ASKED, tmp_path).id
    assert first.startswith("math-")
    assert len(first) == len("math-20260101-120000")
    assert second != first


def test_a_file_that_is_not_toml_is_refused_by_name(tmp_path: Path):
    file = tmp_path / "study.toml"
    file.write_text("task = ")
    with pytest.raises(ConfigError, match=r"study\.toml is not TOML"):
        build_config(Flags(config=file), tmp_path)
