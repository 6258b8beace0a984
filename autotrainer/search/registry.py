"""Selection policies by the name that `--policy` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from autotrainer.errors import ConfigError
from autotrainer.search.asha import Asha
from autotrainer.search.base import SearchPolicy
from autotrainer.search.best_first import BestFirst
from autotrainer.search.pbt import Pbt
from autotrainer.search.puct import Puct
from autotrainer.search.restarts import Restarts

POLICIES: Mapping[str, Callable[[], SearchPolicy]] = MappingProxyType(
    {kind.name: kind for kind in (Puct, BestFirst, Asha, Pbt, Restarts)}
)


def policy(name: str) -> SearchPolicy:
    """The policy of that name.

    Raises:
        ConfigError: there is none; the message lists the known ones.
    """
    if name not in POLICIES:
        raise ConfigError(f"unknown policy {name!r}: known are {', '.join(sorted(POLICIES))}")
    return POLICIES[name]()
