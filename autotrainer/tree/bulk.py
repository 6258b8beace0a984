"""Building very many objects at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Leave the cyclic garbage collector off, and on again afterwards where it was on.

    A journal's objects have no cycles, and every pass looks at all of them again: for a long journal that is
    most of the time that it takes to read.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
