"""`autotrainer import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrainer.cli.options import JsonOption, print_json
from autotrainer.errors import ConfigError


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TRL script or YAML, or a verl YAML.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the study goes.")
    ] = Path("study.toml"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Read a training script or config into a study.toml; nothing of it is run.

    Every setting that was not understood is listed, here and in the file.
    """
    from autotrainer.importing.study import read_file, write_study

    found = read_file(file)
    if output.exists() and not overwrite:
        raise ConfigError(f"{output} exists: give another --output, or --overwrite")
    write_study(found, output)
    if json_output:
        print_json(
            {
                "output": str(output),
                **found.values,
                "recipe": found.recipe,
                "search": found.search,
                "remarks": found.remarks,
                "not_understood": found.unknown,
            }
        )
        return
    typer.echo(f"wrote {output}; start it with: autotrainer run --config {output} --budget 2xCPUx6m")
    for text in found.remarks:
        typer.echo(f"  {text}")
    typer.echo(f"not understood: {len(found.unknown) or 'nothing'}")
    for name, text in found.unknown.items():
        typer.echo(f"  {name} = {text}")
