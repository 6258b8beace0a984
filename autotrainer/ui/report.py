"""The report: one self-contained HTML file that can be mailed. No script, no outside resource; it prints."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from autotrainer import __version__
from autotrainer.files import write_text
from autotrainer.study.view import StudyView
from autotrainer.ui import facts, report_curves, report_trust, report_words, text
from autotrainer.ui.tree_picture import tree_picture, write_tree_picture

_FILTERS = {
    "percent": text.percent,
    "points": text.points,
    "interval": text.interval,
    "seconds": text.seconds,
    "number": text.number,
    "change": text.change,
    "clean": text.clean,
    "plural": text.plural,
}


def write_report(view: StudyView) -> Path:
    """Write report.html and the picture into the study's folder and return the report's path."""
    write_tree_picture(view)
    write_text(view.paths.report, render_report(view, tree_picture(view)))
    return view.paths.report


def render_report(view: StudyView, picture_svg: str) -> str:
    """The report of a study, finished or not, as HTML around a picture of its tree."""
    totals = facts.device_time(view)
    context: dict[str, Any] = {
        "view": view,
        "config": view.config,
        "plan": view.plan,
        "summary": view.summary,
        "version": __version__,
        "picture": _inline(picture_svg),
        "headline": facts.headline(view),
        "second_line": facts.second_line(view),
        "simulated": view.simulated,
        "gain": facts.gain_over_careful(view),
        "arms": facts.comparison(view),
        "splits": facts.SPLITS,
        "path": report_words.path_steps(view),
        "finalist": facts.finalist(view),
        "treatments": facts.treatments(view),
        "kills": facts.kills(view),
        "misses": report_words.without_gain(view),
        "curves": report_curves.curve_rows(view),
        "axes": report_curves.axes_words(view),
        "time_rows": totals,
        "nodes": report_words.node_rows(view),
        "commands": report_words.commands(view),
        "limits": report_words.limits(view),
        "trust": report_trust.trust(view),
        "ablations": report_trust.ablations(view),
        "audit": report_trust.kill_audit(view),
        "provable": report_trust.provable(view),
        "money": report_trust.money(view),
        "asked": report_words.asked(view),
        "planned": report_words.planned(view),
        "why": facts.reason,
        "trained_from": facts.trained_from,
    }
    return _render("report.html.j2", context)


def render_tree_page(view: StudyView, picture_svg: str) -> str:
    """The picture alone, as a page that scrolls: what MLflow shows among the artifacts."""
    return _render("tree.html.j2", {"title": view.config.id, "picture": _inline(picture_svg)})


def _render(template: str, context: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment


def _inline(svg: str) -> Markup:
    """The picture without its XML declaration, trusted: the renderer has escaped what is in it."""
    return Markup(svg.partition("?>")[2] if svg.startswith("<?xml") else svg)
