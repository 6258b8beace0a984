"""The right name that is nearest to a wrong one."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where no known name is near."""
    from difflib import get_close_matches

    near = get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
