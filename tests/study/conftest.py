from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotrainer.study.config import StudyConfig
from autotrainer.study.runtime import Runtime
from autotrainer.study.study import open_runtime
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.journal import Journal

Open = Callable[..., Runtime]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """The runtime of a study whose journal a builder wrote."""

    def make(builder: TreeBuilder, **settings: Any) -> Runtime:
        root = tmp_path / "runs" / "s"
        root.mkdir(parents=True)
        config = StudyConfig.build(
            {"id": "s", "task": "math", "model": "tiny", "budget_text": "2xCPUx6m", **settings}
        )
        (root / "study.toml").write_text(config.to_toml(), encoding="utf-8")
        journal = Journal(root / "journal.jsonl")
        for event in builder.events:
            journal.append(event.kind, dict(event.data))
        return open_runtime(root)

    return make
