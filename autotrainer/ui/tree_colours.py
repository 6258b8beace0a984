"""Colours of the run tree: pale to dark green from the lowest trained dev score to the best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from autotrainer.ui import text

_PALE, _DARK = (214, 235, 228), (22, 110, 89)
_BASE, _BELOW, _NONE = "#eef3f5", "#f6dcc7", "var(--empty)"
_LIGHT_INK_ABOVE = 0.62
_CHAR_W = 6.1

STYLE = (
    ".at-tree{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;"
    "--page:#fff;--ink:#1b2226;--soft:#5c6a72;--line:#9aa7ae;--won:#c2410c;--bad:#c81e1e;--live:#1d4ed8;"
    "--band:#f5f7f8;--empty:#f1f3f4}"
    "@media (prefers-color-scheme:dark){.at-tree{--page:#14191c;--ink:#e8edf0;--soft:#9fb0b8;--line:#5d6c75;"
    "--won:#fb923c;--bad:#f87171;--live:#7aa2ff;--band:#1b2226;--empty:#262f34}}"
    ".at-page{fill:var(--page)}.at-title{font-size:17px;font-weight:650;fill:var(--ink)}"
    ".at-note{font-size:12px;fill:var(--soft)}.at-caption{font-size:13px;font-weight:600;fill:var(--ink)}"
    ".at-band{fill:var(--band)}.at-edge{fill:none;stroke:var(--line);stroke-width:1.6}"
    ".at-won{stroke:var(--won);stroke-width:3}.at-afresh{stroke-dasharray:2 5;stroke-linecap:round}"
    ".at-further{stroke-dasharray:6 4}.at-fork{font-size:10.5px;fill:var(--soft);text-anchor:end}"
    ".at-node rect,.at-key{stroke:var(--line);stroke-width:1.2}"
    ".at-id{font-size:14px;font-weight:650}.at-score{font-size:14px;font-weight:650;text-anchor:end}"
    ".at-what{font-size:12.5px}.at-change{font-size:11.5px}"
    ".at-node .at-done{stroke:var(--line)}"
    ".at-node .at-pruned,.at-key.at-pruned{stroke:var(--soft);stroke-width:2;stroke-dasharray:7 4}"
    ".at-node .at-cancelled{stroke:var(--soft);stroke-width:1.6;stroke-dasharray:2 3}"
    ".at-node .at-broken,.at-key.at-broken{stroke:var(--bad);stroke-width:2.2}"
    ".at-node .at-active,.at-key.at-active{stroke:var(--live);stroke-width:2.4}"
    ".at-node .at-promoted,.at-key.at-promoted{stroke:var(--won);stroke-width:3}"
)


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """From dev scores to colours; `base` is the base model's, `low` to `high` the trained nodes' range."""

    base: float | None
    low: float
    high: float

    @classmethod
    def of(cls, base: float | None, trained: Iterable[float]) -> Self:
        """The scale of a study: only trained scores from the base upwards spread the greens."""
        above = [score for score in trained if base is None or score >= base]
        return cls(base, min(above, default=base or 0.0), max(above, default=base or 0.0))

    def colours(self, score: float | None, *, is_base: bool = False) -> tuple[str, str]:
        """Fill and ink of a box."""
        if score is None:
            return _NONE, "var(--ink)"
        if is_base:
            return _BASE, "#1b2226"
        if self.base is not None and score < self.base:
            return _BELOW, "#43220a"
        share = (score - self.low) / (self.high - self.low) if self.high > self.low else 1.0
        return _mix(share), "#ffffff" if share > _LIGHT_INK_ABOVE else "#0d2a23"


def _mix(share: float) -> str:
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(_PALE, _DARK, strict=True))


def legend(scale: ScoreScale, x: float, y: float, width: float) -> tuple[str, float]:
    """What colours, borders and lines mean, in as many rows as the width asks for; the SVG and its height."""
    steps = 5
    best = f"dev {text.percent(scale.low)} to {text.percent(scale.high)}"
    items = [
        (_chip("", _BASE), 20, f"base model {text.percent(scale.base)}"),
        (_chip("", _BELOW), 20, "below it"),
    ]
    items.append(
        ("".join(_chip("", _mix(i / (steps - 1)), 22 * i) for i in range(steps)), 22 * steps - 2, best)
    )
    states = ("pruned", "broken", "active", "promoted")
    labels = ("pruned", "failed or invalid", "running or waiting", "\u2605 promoted")
    items += [(_chip(f" at-{state}", _NONE), 20, label) for state, label in zip(states, labels, strict=True)]
    items.append(('<path class="at-edge at-won" d="M0 7h28"/>', 28, "path of the finalist"))
    items.append(('<path class="at-edge at-afresh" d="M0 7h28"/>', 28, "starts again from the base model"))
    parts, left, row = [], 0.0, 0
    for drawing, size, label in items:
        room = size + 7 + _CHAR_W * len(label) + 20
        if left and left + room - 20 > width:
            left, row = 0.0, row + 1
        parts.append(
            f'<g transform="translate({x + left:g} {y + 24 * row:g})">{drawing}'
            f'<text class="at-note" x="{size + 7}" y="11">{label}</text></g>'
        )
        left += room
    return "".join(parts), 24.0 * (row + 1)


def _chip(border: str, fill: str, x: int = 0) -> str:
    return f'<rect class="at-key{border}" x="{x}" y="0" width="20" height="14" rx="3" fill="{fill}"/>'
