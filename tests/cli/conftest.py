from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotrainer.cli.app import invoke
from autotrainer.study.config import StudyConfig
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.journal import Journal


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Cli = Callable[..., Ended]
MakeStudy = Callable[..., Path]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line in this process, in an empty folder, on a machine with two cores and no GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOTRAINER_DEBUG", raising=False)
    monkeypatch.setattr("autotrainer.executors.devices.cpu_cores", lambda: 2)
    monkeypatch.setattr("autotrainer.executors.devices.gpu_names", lambda: ())

    def call(*arguments: str) -> Ended:
        code = invoke(arguments)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call


@pytest.fixture
def make_study(tmp_path: Path) -> MakeStudy:
    """Studies on disk under runs/, from a builder's events."""

    def make(study: str, builder: TreeBuilder | None = None, *more: tuple[str, dict[str, object]]) -> Path:
        root = tmp_path / "runs" / study
        root.mkdir(parents=True)
        config = StudyConfig.build({"id": study, "task": "math", "model": "tiny", "budget_text": "2xCPUx6m"})
        (root / "study.toml").write_text(config.to_toml(), encoding="utf-8")
        journal = Journal(root / "journal.jsonl")
        journal.append("study_created", {"study": study, "seed": 0, "config": config.model_dump(mode="json")})
        journal.append("study_started", {"deadline": 1e12, "granted": 720.0})
        for event in builder.events if builder else ():
            journal.append(event.kind, dict(event.data))
        for kind, data in more:
            journal.append(kind, data)
        return root

    return make
