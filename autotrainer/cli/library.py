"""`autotrainer skills`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from autotrainer.cli.options import JsonOption, print_json

app = typer.Typer(help="The library of published interventions.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """The library of published interventions."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_skills(
    folders: Annotated[
        list[Path] | None,
        typer.Option("--skills", metavar="DIR", help="A folder of more skills; repeatable."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """List the skills: id, what they treat, cost and what stands behind them."""
    from autotrainer.library.loader import load_skills

    cards = [skill.card for skill in load_skills(folders or ()).values()]
    rows: list[dict[str, Any]] = [
        {
            "id": card.id,
            "name": card.name,
            "paper": card.paper,
            "family": card.family,
            "kind": card.kind,
            "treats": list(card.treats),
            "requires": list(card.requires),
            "cost": card.cost,
            "badge": card.badge,
            "folder": card.folder,
        }
        for card in cards
    ]
    if json_output:
        print_json(rows)
        return
    from rich.table import Table

    from autotrainer.cli.drive import console

    table = Table("id", "treats", "kind", "cost", "badge", "paper", box=None, pad_edge=False)
    for row in rows:
        table.add_row(
            row["id"], ", ".join(row["treats"]), row["kind"], row["cost"], row["badge"], row["paper"]
        )
    console().print(table)
