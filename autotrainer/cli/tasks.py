"""`autotrainer tasks`."""

from __future__ import annotations

import typer

from autotrainer.cli.options import JsonOption, print_json

app = typer.Typer(help="The tasks that can be learned.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """The tasks that can be learned."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_tasks(json_output: JsonOption = False) -> None:
    """List the tasks: id, title, items in each split, licence."""
    from autotrainer.study.setup import task_table

    rows = [{"id": name, **facts} for name, facts in sorted(task_table().items())]
    if json_output:
        print_json(rows)
        return
    for row in rows:
        sizes = ", ".join(f"{split} {number}" for split, number in row["sizes"].items())
        typer.echo(f"{row['id']}  {row['title']} ({sizes}; {row['licence']})")
