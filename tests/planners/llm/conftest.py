from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotrainer.contract.metrics import Metrics
from autotrainer.planners.base import PlanningContext, planning_rng
from autotrainer.planners.llm.planner import LlmPlanner
from autotrainer.planners.llm.prices import Price
from autotrainer.planners.llm.settings import LlmSettings
from autotrainer.testing.scripted_desk import ScriptedDesk
from autotrainer.testing.scripted_model import ScriptedModel
from autotrainer.testing.trees import TreeBuilder

FREE = Price(0.0, 0.0, known=False)
MakePlanner = Callable[..., tuple[LlmPlanner, ScriptedDesk, ScriptedModel]]


@pytest.fixture
def grown() -> TreeBuilder:
    """A base, two careful seeds, and a search node on top."""
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.40, 0.41)
    builder.completed(builder.node("n001", knobs={"beta": 0.01}), 0.45)
    return builder


@pytest.fixture
def planner_of(tmp_path: Path) -> MakePlanner:
    """A planner of a scripted model on a scripted desk; nothing sleeps."""

    def make(
        *answers: Any, desk: ScriptedDesk | None = None, price: Price = FREE, **settings: Any
    ) -> tuple[LlmPlanner, ScriptedDesk, ScriptedModel]:
        model = ScriptedModel(*answers)
        own = desk or ScriptedDesk(tmp_path / "study")
        planner = LlmPlanner()
        asked = LlmSettings.model_validate({"model": "fake/one", "digest_tokens": 3000, **settings})
        planner.bind(own, asked, backend=model, price=lambda name: price)
        planner._ready().sleep = lambda seconds: None
        return planner, own, model

    return make


def context_of(builder: TreeBuilder, *skills: Any, rows: dict[str, list[dict[str, Any]]] | None = None):
    return PlanningContext(
        tree=builder.tree,
        careful=builder.careful,
        steps=builder.steps,
        library={skill.card.id: skill for skill in skills},
        rng=planning_rng(0, len(builder.tree)),
        metrics=lambda node: Metrics((rows or {}).get(node, [])),
        settings={},
    )
