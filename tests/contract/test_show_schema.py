import json
from pathlib import Path

import jsonschema
import pytest

from autotrainer.files import dumps
from autotrainer.study.config import StudyConfig
from autotrainer.study.view import StudyView
from autotrainer.testing.sample_study import SampleStudy, write_running_study, write_sample_study

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "show.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> dict:
    return as_printed(write_sample_study(tmp_path_factory.mktemp("runs") / "sample"))


def as_printed(root: Path) -> dict:
    """What `show --json` prints, read back."""
    return json.loads(dumps(StudyView.read(root).to_json(), indent=1))


def test_a_finished_study_is_valid(validator, shown):
    assert list(validator.iter_errors(shown)) == []
    assert shown["promoted"] == "n015"


def test_a_study_is_valid_at_every_moment(validator, tmp_path):
    journal = (
        (write_running_study(tmp_path / "whole") / "journal.jsonl")
        .read_text(encoding="utf-8")
        .splitlines(True)
    )
    config = StudyConfig.build({"id": "part", "task": "math", "model": "tiny", "budget_text": "2xCPUx6m"})
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "study.toml").write_text(config.to_toml(), encoding="utf-8")
    for length in range(1, len(journal) + 1, 5):
        (tmp_path / "part" / "journal.jsonl").write_text("".join(journal[:length]), encoding="utf-8")
        assert list(validator.iter_errors(as_printed(tmp_path / "part"))) == []


def test_a_study_that_was_only_created_is_valid(validator, tmp_path):
    value = as_printed(SampleStudy(tmp_path / "new").root)
    assert list(validator.iter_errors(value)) == []
    assert value["plan"] is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("study", "state"), "asleep"),
        (("budget", "used"), "much"),
        (("nodes", 3, "state"), "lost"),
        (("nodes", 3, "id"), "node-3"),
        (("nodes", 3, "surprise"), 1),
        (("nodes", 7, "scores", "exam"), {}),
        (("nodes", 7, "scores", "dev", "mean"), None),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_what_is_not_documented_is_refused(validator, shown, path, value):
    broken = json.loads(json.dumps(shown))
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert list(validator.iter_errors(broken))


def test_every_key_of_a_node_is_required(validator, shown):
    for key in shown["nodes"][7]:
        broken = json.loads(json.dumps(shown))
        del broken["nodes"][7][key]
        assert list(validator.iter_errors(broken)), key
