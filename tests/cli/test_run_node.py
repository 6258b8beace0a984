import json
from pathlib import Path

import pytest

from autotrainer.testing.trees import TreeBuilder


@pytest.fixture
def recorded(make_study) -> Path:
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4)
    return make_study("one", builder)


@pytest.mark.parametrize(("equal", "code"), [(True, 0), (False, 1)])
def test_a_node_is_repeated_in_the_folder_asked_for_and_the_exit_code_tells(
    cli, recorded, monkeypatch, tmp_path, equal, code
):
    asked: list[tuple[Path, str, Path]] = []

    def repeat(root: Path, node: str, output: Path) -> dict[str, object]:
        asked.append((root, node, output))
        return {"steps_compared": 60, "largest_difference": 0.0, "equal": equal}

    monkeypatch.setattr("autotrainer.study.replay.run_node", repeat)
    ended = cli("run-node", "one", "n001", "--output", "scratch", "--json")
    assert ended.code == code
    assert asked == [(recorded, "n001", tmp_path / "scratch")]
    assert json.loads(ended.out)["steps_compared"] == 60
    assert "steps compared: 60" in cli("run-node", "one", "n001").out


def test_a_node_that_is_not_there_is_refused(cli, recorded):
    ended = cli("run-node", "one", "n007")
    assert ended.code == 2
    assert "n000, n001" in ended.err
