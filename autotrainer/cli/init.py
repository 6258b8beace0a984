"""`autotrainer init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrainer.errors import ConfigError

LAB = Path(__file__).parent / "lab"
TEXT = ".txt"
"""Behind the names of Python files of the lab, which are no modules of this package."""


def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where; default: here.")] = Path(),
) -> None:
    """Begin a lab: a folder with a study file, and a skill and reward of your own to change.

    Nothing that is there is overwritten.

    Example: autotrainer init my-lab
    """
    files = sorted(path for path in LAB.rglob("*") if path.is_file())
    targets = {path: folder / str(path.relative_to(LAB)).removesuffix(TEXT) for path in files}
    there = [str(target) for target in targets.values() if target.exists()]
    if there:
        raise ConfigError(f"{', '.join(there)} is there: nothing was written; give another folder")
    for path, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        typer.echo(f"made    {target}")
    here = "" if folder == Path() else f"cd {folder} && "
    typer.echo(f"next    {here}autotrainer run --config study.toml --dry-run")
