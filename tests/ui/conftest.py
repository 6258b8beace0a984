from collections.abc import Callable
from pathlib import Path

import pytest

from autotrainer.budget.ledger import Ledger
from autotrainer.contract.paths import StudyPaths
from autotrainer.study.config import StudyConfig
from autotrainer.study.view import StudyView
from autotrainer.testing.sample_study import write_running_study, write_sample_study
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.event import Event
from autotrainer.tree.tree import Tree

View = Callable[..., StudyView]


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> StudyView:
    """A finished study of 17 nodes: search paid."""
    return StudyView.read(write_sample_study(tmp_path_factory.mktemp("runs") / "sample"))


@pytest.fixture(scope="session")
def running(tmp_path_factory) -> StudyView:
    """The same study while it searches."""
    return StudyView.read(write_running_study(tmp_path_factory.mktemp("runs") / "running"))


@pytest.fixture
def view_of(tmp_path: Path) -> View:
    """The view of a tree built by hand, without metrics, with more events behind it."""

    def make(builder: TreeBuilder | None = None, *more: tuple[str, dict]) -> StudyView:
        config = StudyConfig.build({"id": "hand", "task": "math", "model": "tiny", "budget_text": "2xCPUx6m"})
        events = [Event(0, 1e9, "study_created", {"study": "hand", "seed": 0, "config": {}})]
        for kind, data in [*((e.kind, dict(e.data)) for e in (builder.events if builder else ())), *more]:
            events.append(Event(len(events), 1e9 + len(events), kind, data))
        return StudyView(
            StudyPaths(tmp_path / "hand"), config, tuple(events), Tree.replay(events), Ledger.replay(events)
        )

    return make
