"""`autotrainer export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrainer.cli.locate import find_study
from autotrainer.cli.options import DEFAULT_RUNS, JsonOption, RunsOption, StudyArgument, print_json


def export(
    study: StudyArgument = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="A new folder; default: <study>-export.")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="Default: what was promoted, else the best.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    json_output: JsonOption = False,
) -> None:
    """Take home the model, and a plain TRL script that repeats it.

    Writes model/ (merged safetensors, tokenizer, model card), train.py with its data, recipe.toml and
    requirements.txt.
    """
    from autotrainer.cli.show import require_node
    from autotrainer.export.package import export_study
    from autotrainer.study.view import StudyView

    view = StudyView.read(find_study(study, runs))
    if node is not None:
        require_node(view, node)
    done = export_study(view, Path(f"{view.config.id}-export") if out is None else out, node)
    if json_output:
        value = {"folder": str(done.folder.resolve()), "node": done.node, "warnings": list(done.warnings)}
        print_json({"schema_version": 1, **value})
        return
    for warning in done.warnings:
        typer.echo(f"note    {warning}")
    typer.echo(f"model   {done.folder / 'model'} ({done.node})")
    if (done.folder / "train.py").is_file():
        typer.echo(f"script  {done.folder / 'train.py'}: python train.py trains it again")
