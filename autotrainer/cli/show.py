"""`autotrainer show` and `autotrainer report`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrainer.cli.locate import find_study
from autotrainer.cli.nearest import did_you_mean
from autotrainer.cli.options import DEFAULT_RUNS, JsonOption, RunsOption, StudyArgument, print_json
from autotrainer.errors import ConfigError

if TYPE_CHECKING:
    from autotrainer.study.view import StudyView

_NODE_ID = re.compile(r"n\d{3,}")


def show(
    study: StudyArgument = None,
    node: Annotated[str | None, typer.Argument(metavar="[NODE]", help="One node's story.")] = None,
    difference: Annotated[
        bool,
        typer.Option("--diff", help="What the node's recipe and harness have that its parent's have not."),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="NODE", help="With --diff: another node than the parent."),
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    json_output: JsonOption = False,
) -> None:
    """Show a study, or the story of one node.

    Examples: autotrainer show; autotrainer show my-study n007; autotrainer show n007 --diff --against n001
    """
    from autotrainer.study.view import StudyView

    if study is not None and node is None and _NODE_ID.fullmatch(study) and not (runs / study).exists():
        study, node = None, study  # `show n003`: a node of the newest study
    view = StudyView.read(find_study(study, runs))
    if node is not None:
        require_node(view, node)
    if (difference or against) and node is None:
        raise ConfigError("--diff is of a node: autotrainer show [STUDY] NODE --diff")
    if against is not None:
        require_node(view, against)
    if json_output:
        value = view.to_json()
        print_json(value if node is None else next(item for item in value["nodes"] if item["id"] == node))
    elif node is not None and (difference or against):
        from autotrainer.cli.drive import console
        from autotrainer.ui.difference import node_difference

        console().print(node_difference(view, node, against))
    elif node is not None:
        from autotrainer.cli.drive import console
        from autotrainer.ui.terminal import node_story

        console().print(node_story(view, node))
    else:
        from autotrainer.cli.drive import print_study

        print_study(view)


def report(study: StudyArgument = None, runs: RunsOption = DEFAULT_RUNS) -> None:
    """Write a study's report.html anew."""
    from autotrainer.study.view import StudyView

    view = StudyView.read(find_study(study, runs))
    from autotrainer.ui.report import write_report

    path: Path = write_report(view)
    typer.echo(str(path))


def require_node(view: StudyView, node: str) -> None:
    """Refuse a node that is not in the study.

    Raises:
        ConfigError: there is none of that id; the message has those that are there.
    """
    if node not in view.tree:
        known = [item.id for item in view.tree.nodes]
        names = ", ".join(known) if len(known) <= 12 else f"{known[0]} to {known[-1]}"
        raise ConfigError(
            f"unknown node {node!r}: study {view.config.id} has {names or 'no nodes yet'}"
            f"{did_you_mean(node, known)}"
        )
