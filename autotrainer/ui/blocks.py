"""A curve as one line of block characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def blocks(values: Sequence[float], width: int = 40) -> str:
    """At most `width` characters, each the mean of an equal stretch; a flat curve is a flat line."""
    if not values:
        return ""
    count = min(width, len(values))
    cuts = [round(index * len(values) / count) for index in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)]
    low, high = min(means), max(means)
    span = high - low or 1.0
    return "".join(_BLOCKS[min(7, int(8 * (mean - low) / span))] for mean in means)
