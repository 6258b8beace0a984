"""A curve over steps as a small inline SVG; curves of one metric share their axes, so that rows compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self
from xml.sax.saxutils import escape

WIDTH, HEIGHT, PAD = 190.0, 44.0, 3.0
Series = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Axes:
    """What all curves of a metric share: steps from 1 to `steps`, values from `low` to `high`."""

    steps: int
    low: float
    high: float

    @classmethod
    def around(cls, curves: Iterable[Series], steps: int) -> Self:
        """Axes for these curves; the 1 % of values at either end may lie outside, drawn at the edge."""
        values = sorted(value for curve in curves for _, value in curve)
        if not values:
            return cls(max(1, steps), 0.0, 1.0)
        edge = len(values) // 100
        low, high = values[edge], values[-1 - edge]
        return cls(max(1, steps), low, high if high > low else low + (abs(low) or 1.0))

    def at(self, step: float, value: float) -> tuple[float, float]:
        """The place of a point in pixels, clipped to the drawing."""
        x = PAD + (WIDTH - 2 * PAD) * min(1.0, (step - 1) / max(1, self.steps - 1))
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return round(x, 1), round(HEIGHT - PAD - (HEIGHT - 2 * PAD) * share, 1)


def sparkline(curve: Series, axes: Axes, label: str, marks: Iterable[tuple[int, str]] = ()) -> str:
    """The curve, with a vertical line where something was found; empty text for an empty curve."""
    if not curve:
        return ""
    points = [axes.at(step, value) for step, value in curve]
    drawn = (
        f'<polyline points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>'
        if len(points) > 1
        else f'<circle cx="{points[0][0]:g}" cy="{points[0][1]:g}" r="2"/>'
    )
    lines = "".join(
        f'<line class="mark" x1="{x:g}" x2="{x:g}" y1="0" y2="{HEIGHT:g}">'
        f"<title>{escape(words)}</title></line>"
        for step, words in marks
        for x, _ in [axes.at(step, axes.low)]
    )
    end = points[-1]
    return (
        f'<svg class="spark" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" width="{WIDTH:g}" height="{HEIGHT:g}" '
        f'role="img">'
        f'<title>{escape(label)}</title>{lines}{drawn}<circle cx="{end[0]:g}" cy="{end[1]:g}" r="2.2"/></svg>'
    )
