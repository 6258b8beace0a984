from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrainer.ui import text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1e-4, "1e-4"),
        (3e-4, "3e-4"),
        (2.5e-06, "2.5e-6"),
        (0.28, "0.28"),
        (16, "16"),
        (0.0, "0"),
        (None, "\u2013"),
        ("constant", "constant"),
        ("NaN", "nan"),
        (True, "True"),
        (1234.5678, "1235"),
        (10**400, "huge"),
    ],
)
def test_numbers_are_written_as_people_write_them(value, words):
    assert text.number(value) == words


def test_durations_have_one_unit():
    assert [text.seconds(s) for s in (0.4, 42, 320, 11111, None)] == [
        "0 s",
        "42 s",
        "5:20 min",
        "3:05 h",
        "\u2013",
    ]


def test_a_change_says_from_what_to_what():
    rows: list[dict[str, Any]] = [
        {"key": "learning_rate", "old": 1e-4, "new": 3e-4},
        {"key": "epsilon_high", "old": None, "new": 0.28},
        {"key": "hook hooks/overlong.py:Overlong", "old": None, "new": "hooks/overlong.py:Overlong"},
    ]
    assert text.changes(rows) == "lr 1e-4 \u2192 3e-4, epsilon_high: 0.28, + hook overlong"
    assert text.changes(rows, most=1) == "lr 1e-4 \u2192 3e-4, +2"


@given(st.text())
def test_clean_text_is_one_line_without_control_characters(words):
    cleaned = text.clean(words)
    assert len(cleaned.splitlines()) <= 1
    assert all(ord(c) >= 32 and not 127 <= ord(c) < 160 for c in cleaned)
    cleaned.encode("utf-8")


@given(st.text(), st.integers(1, 30))
def test_cut_text_is_never_wider_than_asked(words, width):
    assert len(text.cut(words, width)) <= width
