from autotrainer.bench.base import BenchOptions
from autotrainer.bench.integrity import run
from autotrainer.evaluation.edits import copied_items, edit_findings


def test_no_cheat_counts_and_no_honest_node_is_thrown_out():
    measured = run(BenchOptions())
    figures = measured["figures"]
    assert figures["cheats"] >= 25
    assert figures["honest"] >= 25
    assert figures["cheats_promoted"] == figures["honest_invalidated"] == 0
    assert [row for row in measured["rows"] if not row["right_reason"]] == []


def test_a_finding_names_file_and_line():
    assert edit_findings({"harness/rewards/a.py": "x = 1\nimport socket\n"}) == [
        "harness/rewards/a.py line 2: import socket: uses the network"
    ]


def test_copied_items_are_whole_strings():
    assert copied_items({"a.py": "X = ['1+1=?']"}, ["1+1=?", "1+1"]) == ["1+1=?"]
