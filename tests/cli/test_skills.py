import json


def test_a_new_skill_passes_its_check_and_is_in_the_list_of_its_project(cli, tmp_path):
    made = cli("skills", "new", "my-skill")
    assert made.code == 0
    assert sorted(path.name for path in (tmp_path / "skills" / "my_skill").iterdir()) == [
        "SKILL.md",
        "__init__.py",
        "skill.py",
    ]
    assert cli("skills", "check", "my-skill").code == 0
    listed = json.loads(cli("skills", "list", "--json").out)
    assert "my-skill" in [row["id"] for row in listed]


def test_all_shipped_skills_pass_and_the_check_prints_what_stands_behind_them(cli):
    ended = cli("skills", "check", "--all", "--json")
    rows = json.loads(ended.out)
    assert ended.code == 0
    assert len(rows) >= 9
    assert {"id", "paper", "treats", "code", "badge"} <= rows[0].keys()


def test_a_skill_that_breaks_the_protocol_fails_its_check_with_the_reason(cli, tmp_path):
    cli("skills", "new", "my-skill")
    code = tmp_path / "skills" / "my_skill" / "skill.py"
    code.write_text(code.read_text().replace("return room and", "return room or"))
    ended = cli("skills", "check", "my-skill")
    assert ended.code == 1
    assert "it does not apply without its findings" in ended.out


def test_show_prints_the_page_of_a_skill(cli):
    ended = cli("skills", "show", "lr-backoff")
    assert ended.code == 0
    for word in ("treats", "collapse", "Mechanism", "How to tell"):
        assert word in ended.out


def test_a_wrong_id_names_what_is_allowed(cli):
    ended = cli("skills", "show", "lr-backof")
    assert ended.code == 2
    assert "lr-backoff" in ended.err
    assert cli("skills", "new", "My Skill").code == 2
    cli("skills", "new", "twice")
    again = cli("skills", "new", "twice")
    assert again.code == 2
    assert "is there" in again.err


def test_evidence_is_printed_with_its_counter_examples_and_moves_between_machines(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTRAINER_EVIDENCE", str(tmp_path / "one.sqlite"))
    row = {
        "skill": "lite-ppo",
        "task": "math",
        "band": "tiny",
        "weights": "full",
        "finding": "healthy",
        "low": 0.0,
        "high": 0.1,
        "seeds": 1,
        "device_s": 9.0,
        "node": "n001",
        "time": 0.0,
    }
    rows = [{**row, "effect": 0.05, "study": "a"}, {**row, "effect": -0.01, "study": "b"}]
    (tmp_path / "export.json").write_text(json.dumps({"schema_version": 1, "rows": rows}))
    assert "2 rows" in cli("skills", "evidence", "--import", "export.json").out
    text = cli("skills", "evidence", "lite-ppo").out
    assert "2 trial(s)" in text
    assert text.count("COUNTER-EXAMPLE") == 1
    assert len(json.loads(cli("skills", "evidence", "--json").out)["rows"]) == 2
