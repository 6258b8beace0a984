"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

DEFAULT_RUNS = Path("runs")

StudyArgument: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="[STUDY]", help="Id or folder of a study; default: the newest.")
]
RunsOption: TypeAlias = Annotated[
    Path, typer.Option("--runs", metavar="DIR", file_okay=False, help="Folder of the studies.")
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def print_json(value: object) -> None:
    """Print one JSON document; non-finite numbers are strings, as everywhere."""
    from autotrainer.files import dumps

    typer.echo(dumps(value, indent=1))
