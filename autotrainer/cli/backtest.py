"""`autotrainer backtest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrainer.cli.options import DEFAULT_RUNS, JsonOption, RunsOption, print_json


def backtest(
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="Id, or folder, of a skill with a hook.")],
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="STUDY", help="Id or folder; default: the newest."),
    ] = None,
    node: Annotated[str | None, typer.Option("--node", help="One node of it; default: all.")] = None,
    folders: Annotated[
        list[Path] | None,
        typer.Option("--skills", metavar="DIR", help="A folder of more skills; repeatable."),
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    json_output: JsonOption = False,
) -> None:
    """Replay a skill's hook on the rollouts that a study has stored, before it costs any device time.

    Groups that teach nothing before and after, rank correlations of the reward with correctness and
    length, tokens drawn; a bootstrap interval over groups, and a verdict.
    """
    from autotrainer.cli.library import one_skill
    from autotrainer.cli.locate import find_study
    from autotrainer.study.backtest import backtest_skill
    from autotrainer.study.view import StudyView

    figures = backtest_skill(one_skill(skill, folders), StudyView.read(find_study(on, runs)), node)
    if json_output:
        print_json({"schema_version": 1, **figures})
        return
    effect = figures["effect"]
    what = f"{figures['skill']} ({figures['point']}) on {figures['groups']} groups of {figures['study']}"
    interval = f"95 % interval {effect['low']:+.3f} to {effect['high']:+.3f}, n {effect['n']}"
    typer.echo(f"{what}: {figures['verdict']}")
    typer.echo(f"  {figures['why']}")
    typer.echo(f"  effect {effect['mean']:+.3f} ({interval})")
    for key, value in figures.items():
        if isinstance(value, float):
            typer.echo(f"  {key.replace('_', ' ')} {value:.3f}")
