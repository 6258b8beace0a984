import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrainer.errors import ContractError, JournalError
from autotrainer.tree.journal import Journal


def written(path, count):
    journal = Journal(path, clock=lambda: 1.5)
    for place in range(count):
        journal.append("note", {"text": f"line {place} é", "data": {}})
    return journal


def test_what_was_appended_is_read_back(tmp_path):
    journal = written(tmp_path / "journal.jsonl", 3)
    again = Journal(tmp_path / "journal.jsonl")
    assert list(again) == list(journal)
    assert [event.seq for event in again] == [0, 1, 2]
    assert again.since(2)[0].data["text"] == "line 2 é"


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_file_cut_anywhere_loses_only_its_torn_line(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    written(path, 4)
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    whole = content[:cut].count(b"\n")
    journal = Journal(path)
    assert len(journal) == whole
    journal.append("note", {"text": "after", "data": {}})
    assert [event.data["text"] for event in Journal(path)][-1] == "after"
    assert len(Journal(path)) == whole + 1


def test_a_broken_line_before_the_last_is_an_error(tmp_path):
    path = tmp_path / "journal.jsonl"
    written(path, 2)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first[: len(first) // 2] + b"\n" + second)
    with pytest.raises(ContractError, match=r"journal\.jsonl:1: not JSON"):
        Journal(path)


def test_a_missing_line_is_an_error(tmp_path):
    path = tmp_path / "journal.jsonl"
    written(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(JournalError, match="line 2 has seq 2, expected 1"):
        Journal(path)


def test_an_event_that_breaks_a_rule_is_not_written(tmp_path):
    journal = written(tmp_path / "journal.jsonl", 1)

    def refuse(event):
        raise JournalError("no")

    with pytest.raises(JournalError, match="no"):
        journal.append("note", {"text": "x", "data": {}}, check=refuse)
    with pytest.raises(JournalError, match="unknown kind 'party'"):
        journal.append("party", {})
    assert len(Journal(tmp_path / "journal.jsonl")) == len(journal) == 1


def test_a_reader_writes_nothing_and_repairs_nothing(tmp_path):
    path = tmp_path / "journal.jsonl"
    written(path, 1)
    path.write_bytes(path.read_bytes() + b'{"torn')
    before = path.read_bytes()
    reader = Journal(path, read_only=True)
    with pytest.raises(JournalError, match="read only"):
        reader.append("note", {"text": "x", "data": {}})
    assert path.read_bytes() == before
    assert len(reader) == 1
