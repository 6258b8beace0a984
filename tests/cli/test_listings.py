import json

from autotrainer.resources import tree


def test_skills_are_listed_as_objects_with_their_ids(cli):
    rows = json.loads(cli("skills", "list", "--json").out)
    ids = [row["id"] for row in rows]
    folders = [path.parent.name for path in tree("skills").glob("*/SKILL.md")]
    assert sorted(ids) == sorted(folder.replace("_", "-") for folder in folders)
    assert len(ids) >= 6
    assert all(row["treats"] and row["paper"] for row in rows)


def test_skills_for_a_person_name_every_skill(cli):
    ended = cli("skills", "list")
    for row in json.loads(cli("skills", "list", "--json").out):
        assert row["id"] in ended.out


def test_tasks_are_listed_with_their_splits(cli):
    rows = {row["id"]: row for row in json.loads(cli("tasks", "list", "--json").out)}
    assert set(rows["math"]["sizes"]) == {"train", "probe", "dev", "holdout", "test"}
    assert "math" in cli("tasks", "list").out


def test_the_version_is_the_packages(cli):
    from autotrainer import __version__

    assert cli("--version").out == f"autotrainer {__version__}\n"
