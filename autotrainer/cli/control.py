"""`autotrainer stop` and `autotrainer run-node`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrainer.cli.options import DEFAULT_RUNS, JsonOption, RunsOption, StudyArgument, print_json
from autotrainer.errors import ConfigError


def pause(study: StudyArgument = None, runs: RunsOption = DEFAULT_RUNS) -> None:
    """Pause a running study: its jobs write a checkpoint; the time until it is resumed does not count."""
    stop(study, runs)


def stop(
    study: StudyArgument = None,
    runs: RunsOption = DEFAULT_RUNS,
    finish: Annotated[
        bool, typer.Option("--finish", help="Judge what there is and end, instead of pausing.")
    ] = False,
) -> None:
    """Ask a running study to stop.

    Its jobs write a checkpoint and it pauses; the time until it is resumed does not count.
    """
    from autotrainer.cli.drive import resume_command
    from autotrainer.cli.locate import find_study
    from autotrainer.study.study import is_controlled, request_stop, run_study
    from autotrainer.study.view import StudyView

    root = find_study(study, runs)
    state = StudyView.read(root).state
    controlled = is_controlled(root)
    if not controlled and state != "running":
        raise ConfigError(f"study {root.name} is {state} and nothing runs it: there is nothing to stop")
    request_stop(
        root, "a person asked for the verdict now" if finish else "stopped by a person", finish=finish
    )
    if controlled and finish:
        typer.echo(f"study {root.name} was asked to end: it judges what it has on test and writes its report")
        return
    if controlled:
        typer.echo(f"study {root.name} was asked to stop: its jobs write a checkpoint, then it pauses")
    else:  # nobody is there to answer, but its jobs may still run
        typer.echo(f"nothing runs study {root.name}: stopping its jobs")
        view = run_study(root, should_stop=None if finish else lambda: True)
        typer.echo(f"study {root.name} is {view.state}")
    if StudyView.read(root).state == "finished":
        return
    typer.echo(f"take it up with: {resume_command(root)}")


def watchdog(root: Annotated[Path, typer.Argument(metavar="FOLDER")]) -> None:
    """Keep the control plane of a study alive; what `--detach` starts."""
    from autotrainer.study.watchdog import watch

    raise typer.Exit(watch(root.resolve()))


def run_node(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Id or folder of a study.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node that was trained.")],
    runs: RunsOption = DEFAULT_RUNS,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Where it runs; default: a new temporary folder."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Repeat a recorded node alone.

    It runs outside its study and is compared with what was recorded, step by step; exit code 1 where
    they differ.
    """
    import tempfile

    from autotrainer.cli.locate import find_study
    from autotrainer.cli.show import require_node
    from autotrainer.study.view import StudyView

    root = find_study(study, runs)
    require_node(StudyView.read(root), node)
    from autotrainer.study.replay import run_node as repeat

    folder = output or Path(tempfile.mkdtemp(prefix=f"autotrainer-{node}-"))
    figures = repeat(root, node, folder.resolve())
    if json_output:
        print_json(figures)
    else:
        typer.echo(f"{node} of {root.name}, repeated in {folder}:")
        for key, value in figures.items():
            typer.echo(f"  {key.replace('_', ' ')}: {value}")
    if not figures["equal"]:
        raise typer.Exit(1)
