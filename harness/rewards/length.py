"""A penalty on length, as a fraction of the cap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def length_penalty(
    completion_ids: Sequence[Sequence[int]], max_completion_length: int, start: float = 0.5, **_: Any
) -> list[float | None]:
    """Return 0 up to `start` of the cap, then falling linearly to -1 at the cap.

    The soft overlong punishment of DAPO (https://arxiv.org/abs/2503.14476, eq. 13), its cache given as a
    share.
    """
    low = start * max_completion_length
    span = max(max_completion_length - low, 1e-9)
    return [-min(1.0, max(0.0, (len(ids) - low) / span)) for ids in completion_ids]
