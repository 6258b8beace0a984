import os
from pathlib import Path

import pytest

from autotrainer.cli.locate import find_study
from autotrainer.errors import ConfigError


def a_study(runs: Path, name: str, age: float) -> Path:
    folder = runs / name
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text("")
    os.utime(folder / "study.toml", (1e9 - age, 1e9 - age))
    return folder


def test_the_newest_study_is_the_default(tmp_path: Path):
    a_study(tmp_path, "z-old", 60)
    newest = a_study(tmp_path, "a-new", 0)
    (tmp_path / "mlflow.db").touch()
    assert find_study(None, tmp_path) == newest


def test_a_study_is_found_by_id_and_by_path(tmp_path: Path):
    study = a_study(tmp_path / "runs", "one", 0)
    assert find_study("one", tmp_path / "runs") == study
    assert find_study(str(study), tmp_path / "elsewhere") == study


def test_an_unknown_study_names_the_newest_known_ones(tmp_path: Path):
    for age in range(12):
        a_study(tmp_path, f"s{age:02d}", age)
    with pytest.raises(ConfigError, match=r"unknown study 'x': .*s00, s01, .*and 4 older"):
        find_study("x", tmp_path)
