"""Planners by the name that `--planner` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from autotrainer.errors import ConfigError
from autotrainer.planners.asha import AshaPlanner
from autotrainer.planners.base import Planner
from autotrainer.planners.bracket import BracketPlanner
from autotrainer.planners.cma import CmaPlanner
from autotrainer.planners.grid import GridPlanner
from autotrainer.planners.llm.planner import LlmPlanner
from autotrainer.planners.pbt import PbtPlanner
from autotrainer.planners.random import RandomPlanner
from autotrainer.planners.rules import RulesPlanner
from autotrainer.planners.tpe import TpePlanner

_ALL: tuple[type[Planner], ...] = (
    RulesPlanner,
    TpePlanner,
    CmaPlanner,
    RandomPlanner,
    GridPlanner,
    AshaPlanner,
    PbtPlanner,
    BracketPlanner,
    LlmPlanner,
)
PLANNERS: Mapping[str, Callable[[], Planner]] = MappingProxyType({kind.name: kind for kind in _ALL})


def own_policy(name: str) -> str:
    """The selection policy that a planner is meant for; PUCT for one that does not say."""
    return str(getattr(PLANNERS.get(name), "policy", "puct"))


def planner(name: str) -> Planner:
    """The planner of that name.

    Raises:
        ConfigError: there is none; the message lists the known ones.
    """
    if name not in PLANNERS:
        raise ConfigError(f"unknown planner {name!r}: known are {', '.join(sorted(PLANNERS))}")
    return PLANNERS[name]()
