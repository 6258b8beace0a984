"""A reward for the form of a completion, whatever it says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def matches(completions: Sequence[str], pattern: str = r"-?\d+", **_: Any) -> list[float | None]:
    """Return 1 where the whole completion, stripped, matches the regular expression, else 0."""
    compiled = re.compile(pattern)
    return [float(compiled.fullmatch(text.strip()) is not None) for text in completions]
