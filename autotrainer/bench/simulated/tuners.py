"""The tuners that are compared, as settings of one and the same study loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from autotrainer.bench.simulated.player import Played, best_by_dev, play
from autotrainer.budget.grammar import parse_budget
from autotrainer.search.plan import JobCost, Plan
from autotrainer.search.planning import make_plan
from autotrainer.simulation.surface import Surface
from autotrainer.study.config import SearchSettings


@dataclass(frozen=True, slots=True)
class Setting:
    """Budget and costs of a comparison."""

    name: str
    budget: str
    cost: JobCost

    def plan(self) -> Plan:
        """The plan that the tool makes for a search of its own."""
        settings = SearchSettings.model_validate({"mode": "tree"})
        return make_plan(parse_budget(self.budget), self.cost, settings, model_name="tiny")


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "large": Setting("large", "8xH100x24h", JobCost(60.0, 47.0 * 200 / 60, 120.0)),
        "small": Setting("small", "1xCPUx20m", JobCost(8.0, 0.15, 4.0)),
    }
)
"""`large` is a day on eight GPUs in nodes and times (60 steps that cost what 200 do), `small` one core."""


@dataclass(frozen=True, slots=True)
class Tuner:
    """A way to spend the budget.

    `long` trials are as long as the longest path of a tree; a tuner of restarts is run with both lengths and
    the better one counts.
    """

    planner: str
    policy: str = "auto"
    search: Mapping[str, Any] = field(default_factory=dict)
    long: bool = False


_ONE_CAREFUL = {"careful_seeds": 1}
TUNERS: Mapping[str, Tuner] = MappingProxyType(
    {
        "rules": Tuner("rules"),
        "rules-restarts": Tuner("rules", "restarts"),
        "rules-best-first": Tuner("rules", "best-first"),
        "random": Tuner("random", search=_ONE_CAREFUL, long=True),
        "random-short": Tuner("random", search=_ONE_CAREFUL),
        "grid": Tuner("grid", search=_ONE_CAREFUL, long=True),
        "grid-short": Tuner("grid", search=_ONE_CAREFUL),
        "tpe": Tuner("tpe", search=_ONE_CAREFUL, long=True),
        "tpe-short": Tuner("tpe", search=_ONE_CAREFUL),
        "cma": Tuner("cma", search=_ONE_CAREFUL, long=True),
        "cma-short": Tuner("cma", search=_ONE_CAREFUL),
        "asha": Tuner("asha", search=_ONE_CAREFUL),
        "pbt": Tuner("pbt", search=_ONE_CAREFUL),
        "careful": Tuner("bracket", search={"careful_seeds": 3}, long=True),
    }
)


def run_tuner(name: str, surface: Surface, seed: int, setting: Setting) -> dict[str, Any]:
    """One study's search phase: the curve of the best so far and what would be taken home.

    Returns:
        `final` (true accuracy of the node that is best on dev), `base`, `device_s`, `nodes`, and `curve`:
        pairs of device-seconds and true accuracy of the best node on dev by then.
    """
    tuner, plan = TUNERS[name], setting.plan()
    search: dict[str, Any] = {"mode": "tree", **tuner.search}
    if tuner.long:
        search |= {"steps": plan.max_depth * plan.steps, "max_depth": 1}
    else:
        search |= {"steps": plan.steps, "max_depth": plan.max_depth}
    played = play(
        surface,
        seed=seed,
        budget=setting.budget,
        cost=setting.cost,
        planner_name=tuner.planner,
        policy_name=tuner.policy,
        search=search,
        until="judging",
    )
    best = best_by_dev(played)
    return {
        "tuner": name,
        "final": played.true[best.id],
        "base": played.true["n000"],
        "device_s": played.ledger.used,
        "nodes": len(played.tree) - 1,
        "search_s": played.ended,
        "curve": curve(played),
    }


def curve(played: Played) -> list[tuple[float, float]]:
    """Wall time since the start, and the true accuracy of the node that was best on dev by then."""
    found: list[tuple[float, float]] = []
    best, level = -1.0, 0.0
    for node, when in sorted(played.scored_at.items(), key=lambda item: item[1]):
        score = played.tree[node].score("dev")
        if score is not None and score > best and node in played.true:
            best, level = score, played.true[node]
            found.append((when, level))
    return found
