"""`autotrainer watch`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from autotrainer.cli.locate import find_study
from autotrainer.cli.options import DEFAULT_RUNS, RunsOption, StudyArgument

_RESTS = ("finished", "paused")


def watch(
    study: StudyArgument = None,
    runs: RunsOption = DEFAULT_RUNS,
    once: Annotated[bool, typer.Option("--once", help="Print the picture once and end.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Follow a study that runs elsewhere: tree, running jobs, budget, last decisions.

    Only reads: leaving it (Ctrl-C) changes nothing. Without a terminal it prints a line an event.

    Example: autotrainer watch my-study --once
    """
    from autotrainer.cli.drive import console, print_study
    from autotrainer.cli.progress import choose_progress
    from autotrainer.study.view import StudyView
    from autotrainer.ui.terminal import live_renderable

    root = find_study(study, runs)
    view = StudyView.read(root)
    if once:
        console().print(live_renderable(view, time.time()))
        return
    with choose_progress(json_output=False, seen=0) as progress:
        try:
            while True:
                progress.tick(view)
                if view.state in _RESTS:
                    break
                time.sleep(every)
                view = StudyView.read(root)
        except KeyboardInterrupt:
            return
    print_study(view)
