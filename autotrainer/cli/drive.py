"""Driving a study to its end from the terminal: progress, Ctrl-C, and what is printed at the end."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autotrainer.cli.interrupt import StopOnInterrupt
from autotrainer.cli.options import DEFAULT_RUNS, print_json
from autotrainer.cli.progress import choose_progress
from autotrainer.errors import AutotrainerError, ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from autotrainer.study.view import StudyView

INTERRUPTED = 130
_PIPE_WIDTH = 120


def drive(root: Path, *, json_output: bool, created: bool = False) -> None:
    """Run or resume a study and print how it ended.

    A study that was just created and that the user's input made fail is removed again.

    Raises:
        typer.Exit: with 130 after Ctrl-C.
    """
    from autotrainer.study.study import remove_study, run_study
    from autotrainer.study.view import StudyView

    progress = choose_progress(
        json_output=json_output, seen=0 if created else len(StudyView.read(root).events)
    )
    guard = StopOnInterrupt(
        lambda: progress.say(
            "stopping: jobs write a checkpoint and the study pauses; Ctrl-C again leaves them running"
        )
    )
    with progress, guard:
        try:
            view = run_study(root, on_tick=progress.tick, should_stop=guard.asked, on_setup=progress.say)
        except KeyboardInterrupt:
            progress.say(f"left; its jobs go on by themselves. Take it up with: {resume_command(root)}")
            raise typer.Exit(INTERRUPTED) from None
        except ConfigError:
            if created:
                remove_study(root)
            raise
        except AutotrainerError as error:
            if not guard.asked():
                raise
            progress.say(f"stopped during set-up ({error}). Take it up with: {resume_command(root)}")
            raise typer.Exit(INTERRUPTED) from None
    print_json(view.to_json()) if json_output else print_study(view)
    if guard.asked() and view.state != "finished":
        raise typer.Exit(INTERRUPTED)


def print_study(view: StudyView) -> None:
    """Run tree, table, what was claimed, and where to read on."""
    from autotrainer.ui.terminal import table_renderable, tree_renderable

    screen = console()
    screen.print(tree_renderable(view))
    screen.print(table_renderable(view))
    for line in closing_lines(view):
        typer.echo(line)


def closing_lines(view: StudyView) -> list[str]:
    """State, claim and the paths and commands to go on with."""
    from autotrainer.tracking.links import default_uri, mlflow_link, open_command

    used, granted = view.ledger.used, view.ledger.granted
    lines = [
        f"study   {view.config.id}: {view.state}, {used:.0f} of {granted:.0f} device-seconds used",
        *(f"result  {line}" for line in claim_lines(view)),
    ]
    if view.paths.report.is_file():
        lines.append(f"report  {view.paths.report}")
    link = mlflow_link(view.paths)
    if link is not None:
        lines.append(f"mlflow  {link.command}, then {link.url}" if link.command else f"mlflow  {link.url}")
    elif (view.paths.root.parent / "mlflow.db").is_file():
        lines.append(f"mlflow  {open_command(default_uri(view.paths.root.parent))}")
    if view.state == "finished" and view.tree.promoted():
        lines.append(f"export  {study_command('export', view.paths.root)} --out DIR")
    lines.append(f"page    {study_command('ui', view.paths.root)}")
    if view.state != "finished":
        unless = " (unless it is being run)" if view.state == "running" else ""
        lines.append(f"resume  {resume_command(view.paths.root)}{unless}")
    return lines


def claim_lines(view: StudyView) -> list[str]:
    """What the study claims on test, with its interval; empty before it is finished.

    The first reason is the headline, which stands under the table already.
    """
    summary, lines = view.summary, []
    gain, winner = summary.get("gain_over_base"), summary.get("winner")
    if gain is not None:
        who = f"{winner} (confirmed)" if winner else "the best arm (not promoted)"
        lines.append(
            f"{who} against the base model on test: {100 * gain['mean']:+.1f} points, 95 % interval "
            f"{100 * gain['low']:+.1f} to {100 * gain['high']:+.1f}, "
            + (f"{gain['n']} seeds" if gain["n"] > 1 else "paired over items")
        )
    return lines + [str(reason) for reason in summary.get("reasons", ())[1:]]


def resume_command(root: Path) -> str:
    """The exact command that takes a study up again."""
    return study_command("resume", root)


def study_command(command: str, root: Path) -> str:
    """The exact command line of a command for one study, from this folder."""
    runs = root.resolve().parent
    where = "" if runs == DEFAULT_RUNS.resolve() else f" --runs {shlex.quote(str(runs))}"
    return f"autotrainer {command} {root.name}{where}"


def console() -> Console:
    """Standard output, wide enough for tables where it is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
