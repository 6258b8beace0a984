"""`autotrainer bench` as a user sees it."""

import json

from autotrainer.bench import record, registry
from autotrainer.cli.app import invoke


def test_an_unknown_benchmark_is_one_line_that_lists_the_known_ones(capsys):
    assert invoke(["bench", "nonsense"]) == 2
    assert "unknown benchmark 'nonsense'" in capsys.readouterr().err


def test_without_a_name_every_benchmark_is_listed_with_what_it_measures(capsys):
    assert invoke(["bench", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(registry.names())
    assert all(row["summary"] for row in rows)


def test_show_prints_the_recorded_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(registry, "names", lambda: ("startup",))
    figures = {"seconds": {"median": 0.25, "low": 0.2, "high": 0.3, "n": 9}}
    record.write_result("startup", {"figures": figures, "rows": []}, ["autotrainer", "bench"], tmp_path)
    assert invoke(["bench", "startup", "--show", "--json", "--results", str(tmp_path)]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema_version"] == 1
    assert value["figures"] == figures
    assert value["machine"]["cores"] >= 1
    assert invoke(["bench", "startup", "--show", "--results", str(tmp_path)]) == 0
    assert "median 0.25 (0.2 to 0.3), n = 9" in capsys.readouterr().out


def test_show_without_a_recorded_file_says_how_to_make_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(registry, "names", lambda: ("startup",))
    assert invoke(["bench", "startup", "--show", "--results", str(tmp_path)]) == 2
    assert "run `autotrainer bench startup`" in capsys.readouterr().err
