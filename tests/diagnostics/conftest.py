from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotrainer.cli.app import invoke


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """The command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ended:
        code = invoke(arguments)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call
