from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autotrainer.study.config import StudyConfig
from autotrainer.study.study import create_study, run_study
from autotrainer.study.view import StudyView

Begin = Callable[..., Path]

SMALL = {
    "mode": "tree",
    "steps": 16,
    "max_nodes": 4,
    "careful_seeds": 1,
    "drafts": 1,
    "max_depth": 2,
    "confirm_seeds": 2,
}
"""A search of four short nodes with its confirmation, about a minute long."""


@pytest.fixture(scope="session")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Begin:
    """Create a study of the tiny model on one CPU slot, with changes of its settings."""

    def make(name: str, *, search: dict[str, Any] | None = None, **values: Any) -> Path:
        config = StudyConfig.build(
            {
                "id": name,
                "task": "math",
                "model": "tiny",
                "budget_text": "1xCPUx10m",
                "search": SMALL if search is None else search,
                **values,
            }
        )
        return create_study(config, tmp_path_factory.mktemp("runs"))

    return make


@pytest.fixture(scope="session")
def two_equal_studies(begin: Begin) -> tuple[StudyView, StudyView]:
    """Two whole studies that were asked for the same thing."""
    first, second = begin("one", seed=5), begin("two", seed=5)
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(run_study, (first, second))
    return one, two
