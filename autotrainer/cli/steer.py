"""`autotrainer steer` and `autotrainer approve`: what a person says to a language-model planner."""

from __future__ import annotations

from typing import Annotated

import typer

from autotrainer.cli.options import DEFAULT_RUNS, RunsOption


def steer(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Id or folder of a study.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The hint, as for a colleague.")],
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Give the language model of a study a hint; it stands in every digest from then on."""
    from autotrainer.cli.locate import find_study
    from autotrainer.study.steering import steer as leave_hint

    root = find_study(study, runs)
    leave_hint(root, text)
    typer.echo(f"study {root.name}: the hint is in the next digest")


def approve(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Id or folder of a study.")],
    decision: Annotated[
        str | None, typer.Argument(metavar="[DECISION]", help="Default: the one that waits.")
    ] = None,
    refuse: Annotated[
        str | None, typer.Option("--refuse", metavar="WHY", help="Say no; the rules planner decides instead.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print what waits; say nothing.")] = False,
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Say yes (or, with --refuse, no) to the decision that waits for a person."""
    from autotrainer.cli.locate import find_study
    from autotrainer.study.steering import approve as answer
    from autotrainer.study.steering import waiting
    from autotrainer.study.view import StudyView
    from autotrainer.ui.llm import decision_text

    root = find_study(study, runs)
    if show:
        view = StudyView.read(root)
        name = waiting(view)
        typer.echo(decision_text(view, name) if name else f"study {root.name}: nothing waits")
        return
    name = answer(root, decision, agreed=refuse is None, text=refuse or "")
    typer.echo(f"study {root.name}: decision {name} {'is agreed to' if refuse is None else 'is refused'}")
