"""Words and numbers as people read them; text from models, patches and logs made harmless to print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite, log10
from typing import Any

from autotrainer.files import decode_number

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_SHORT = {
    "learning_rate": "lr",
    "max_completion_length": "completion length",
    "lr_scheduler_type": "lr schedule",
}
NONE = "\u2013"
MINUS = "\u2212"


def clean(text: object) -> str:
    """The text in one line, without control characters: safe in a terminal and in XML (escaping aside)."""
    return _CONTROL.sub("\ufffd", " ".join(str(text).split("\n")).replace("\t", " "))


def cut(text: str, width: int) -> str:
    """The text, cut with an ellipsis to at most `width` characters."""
    return text if len(text) <= width else text[: max(0, width - 1)].rstrip() + "…"


def number(value: object) -> str:
    """A value of a knob or metric: 1e-4, 0.28, 16, constant; a dash for None."""
    value = decode_number(value)
    if value is None:
        return NONE
    if isinstance(value, bool) or not isinstance(value, int | float):
        return clean(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**15 else f"{value:.3g}" if abs(value) < 10**300 else "huge"
    if not isfinite(value):
        return str(value)
    if value != 0 and not -2.5 <= log10(abs(value)) < 6:
        mantissa, _, exponent = f"{value:.3e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:.4g}"


def percent(share: float | None) -> str:
    """A share as percent with one decimal: `52.3 %`; a dash for None."""
    share = decode_number(share)
    return NONE if share is None else f"{100 * share:.1f} %"


def points(share: float | None) -> str:
    """A difference of shares in percentage points, signed: `+4.6`; a dash for None."""
    share = decode_number(share)
    return NONE if share is None else f"{100 * share:+.1f}".replace("-", MINUS)


def interval(figure: Mapping[str, Any]) -> str:
    """Low and high end of a figure in points: `+2.5 to +6.6`."""
    return f"{points(figure.get('low'))} to {points(figure.get('high'))}"


def p_value(value: float) -> str:
    """`p = 0.003`, `p < 0.001`."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def seconds(value: float | None) -> str:
    """A duration: `42 s`, `5:20 min`, `3:05 h`; a dash for None."""
    if value is None:
        return NONE
    whole = max(0, round(value))
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole // 60 % 60:02d} h"


def plural(count: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def knob_name(key: str) -> str:
    """A short name of a knob or of another row of `StudyView.changes`."""
    if key.startswith("hook "):
        return "hook " + clean(key.rpartition("/")[2].partition(".py")[0])
    return _SHORT.get(key, clean(key))


def change(row: Mapping[str, Any]) -> str:
    """One row of `StudyView.changes`: `lr 1e-4 → 3e-4`, `+ hook overlong`."""
    name = knob_name(row["key"])
    if row["key"].startswith("hook "):
        return f"{'+' if row['old'] is None else MINUS} {name}"
    if row["old"] is None:
        return f"{name}: {number(row['new'])}"
    if row["new"] is None:
        return f"{name} {number(row['old'])} \u2192 default"
    return f"{name} {number(row['old'])} → {number(row['new'])}"


def changes(rows: Sequence[Mapping[str, Any]], most: int = 4) -> str:
    """Rows of `StudyView.changes` in one line; `+2` stands for two more."""
    more = f", +{len(rows) - most}" if len(rows) > most else ""
    return ", ".join(change(row) for row in rows[:most]) + more
