"""The model card: what the model is, how it was trained, what was measured, what that does not say."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autotrainer import __version__
from autotrainer.errors import ContractError
from autotrainer.files import read_json
from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.ui import facts, report_words, text


def model_card(view: StudyView, node: Node, *, has_script: bool) -> str:
    """README.md of the model's folder, as the hub reads it."""
    recipe = view.tree.path_recipe(node.id, node.proposal.recipe.seed)
    context: dict[str, Any] = {
        "view": view,
        "config": view.config,
        "node": node,
        "stages": recipe.stages,
        "seed": recipe.seed,
        "scores": node.scores,
        "headline": facts.headline(view),
        "second_line": facts.second_line(view),
        "arms": facts.comparison(view),
        "splits": facts.SPLITS,
        "manifest": _manifest(view),
        "limits": report_words.limits(view),
        "has_script": has_script,
        "version": __version__,
        "base": json.dumps(view.config.model),
    }
    return _environment().get_template("card.md.j2").render(context)


def _manifest(view: StudyView) -> dict[str, Any]:
    try:
        return read_json(view.paths.manifest)
    except (FileNotFoundError, ContractError):
        event = view.last("study_prepared")
        return dict(event.data["manifest"]) if event else {}


def _cell(words: object) -> str:
    """Text for a cell of a Markdown table: one line, nothing that Markdown or HTML would act on."""
    cleaned = text.clean(words)
    for mark in "\\`*_[]<>|#":
        cleaned = cleaned.replace(mark, "\\" + mark)
    return cleaned


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,  # Markdown; `cell` escapes what others wrote
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(percent=text.percent, cell=_cell, number=text.number, plural=text.plural)
    return environment
