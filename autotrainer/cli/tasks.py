"""`autotrainer tasks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from autotrainer.cli.options import JsonOption, print_json
from autotrainer.errors import ConfigError

TasksOption: TypeAlias = Annotated[
    list[Path] | None, typer.Option("--tasks", metavar="DIR", help="A folder of more tasks; repeatable.")
]
NameArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TASK", help="A name from `tasks list`, or file:, hub:, gym:.")
]

app = typer.Typer(help="The tasks that can be learned.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """The tasks that can be learned."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_tasks(tasks: TasksOption = None, json_output: JsonOption = False) -> None:
    """List the tasks: id, title, items in each split, licence."""
    from autotrainer.study.tasks import task_table

    rows = [{"id": name, **facts} for name, facts in sorted(task_table(_texts(tasks)).items())]
    if json_output:
        print_json(rows)
        return
    for row in rows:
        sizes = ", ".join(f"{split} {number}" for split, number in row["sizes"].items())
        typer.echo(f"{row['id']}  {row['title']} ({sizes}; {row['licence']})")
    typer.echo("gym:NAME  any data set of reasoning-gym; file:DATA.jsonl, hub:OWNER/NAME  your own data")


@app.command("show")
def show_task(name: NameArgument, tasks: TasksOption = None, json_output: JsonOption = False) -> None:
    """Show what is known of a task: sizes, lengths, source, licence."""
    from autotrainer.study.tasks import PREFIXES, described, task_facts

    full = described(name)["name"] if name.startswith(PREFIXES) else name
    facts = {"id": full, **task_facts(full, _texts(tasks))}
    if json_output:
        print_json(facts)
        return
    for key, value in facts.items():
        typer.echo(f"{key:<22} {value}")


@app.command("check")
def check_tasks(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", help="What to check.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Check every task that has a table.")] = False,
    tasks: TasksOption = None,
    json_output: JsonOption = False,
) -> None:
    """Check tasks: the verifier on answers of known worth, leaks across splits, the perturbation."""
    from autotrainer.study.tasks import ask_harness, task_table

    dirs = _texts(tasks)
    asked = [*(names or ()), *(sorted(task_table(dirs)) if every else ())]
    if not asked:
        raise ConfigError("no task: name one, or give --all")
    rows: list[dict[str, Any]] = []
    for name in asked:
        try:
            rows.append({"ok": True, **ask_harness("check", name, dirs=dirs)})
        except ConfigError as error:
            rows.append({"ok": False, "task": name, "error": str(error)})
    if json_output:
        print_json(rows)
    else:
        for row in rows:
            typer.echo(_line(row))
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def _line(row: dict[str, Any]) -> str:
    if not row["ok"]:
        return f"FAIL {row['task']}: {row['error']}"
    return (
        f"ok   {row['task']}: {row['items']} items, gold accepted {row['gold_accepted']:.0%}, bad refused "
        f"{row['bad_rejected']:.0%}, in two splits {row['overlap']}, near-duplicates "
        f"{row['near_duplicates']} of {row['near_duplicates_checked']} ({row['source']})"
    )


@app.command("preview")
def preview_task(
    name: NameArgument,
    n: Annotated[int, typer.Option("-n", min=1, max=50, help="Items.")] = 3,
    tasks: TasksOption = None,
    json_output: JsonOption = False,
) -> None:
    """Print a few training items with what the verifier accepts and refuses."""
    from autotrainer.study.tasks import ask_harness

    found = ask_harness("preview", name, str(n), dirs=_texts(tasks))
    if json_output:
        print_json(found)
        return
    typer.echo(f"{found['task']}: {found['source']}")
    for item in found["items"]:
        typer.echo(f"\n{item['id']}  {item['prompt'][-1]['content']}")
        typer.echo(f"  accepted: {item['accepted']!r}")
        typer.echo(f"  refused:  {', '.join(map(repr, item['refused'][:4]))}")


def _texts(folders: list[Path] | None) -> tuple[str, ...]:
    return tuple(str(folder) for folder in folders or ())
