"""Planners by the name that `--planner` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from autotrainer.errors import ConfigError
from autotrainer.planners.base import Planner
from autotrainer.planners.random import RandomPlanner
from autotrainer.planners.rules import RulesPlanner
from autotrainer.planners.tpe import TpePlanner

PLANNERS: Mapping[str, Callable[[], Planner]] = MappingProxyType(
    {RulesPlanner.name: RulesPlanner, RandomPlanner.name: RandomPlanner, TpePlanner.name: TpePlanner}
)


def planner(name: str) -> Planner:
    """The planner of that name.

    Raises:
        ConfigError: there is none; the message lists the known ones.
    """
    if name not in PLANNERS:
        raise ConfigError(f"unknown planner {name!r}: known are {', '.join(sorted(PLANNERS))}")
    return PLANNERS[name]()
