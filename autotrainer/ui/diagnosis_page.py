"""The page of a diagnosis: findings with their curves, the evidence marked; one self-contained file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.readers.run import ForeignRun
from autotrainer.diagnostics.survey.fixes import FIXES, NAMES, SKILLS
from autotrainer.diagnostics.survey.survey import Survey
from autotrainer.files import write_text
from autotrainer.tree.finding import Finding, Severity
from autotrainer.ui.sparkline import Axes, sparkline

_TEMPLATES = Path(__file__).with_name("templates")
_SHOWN = (
    "reward",
    "reward_std",
    "kl",
    "entropy",
    "grad_norm",
    "frac_reward_zero_std",
    "completions/mean_length",
    "completions/clipped_ratio",
    "probe/accuracy",
)


def write_page(run: ForeignRun, found: Survey, name: str, target: Path) -> None:
    """Write the page of a diagnosis to a file."""
    write_text(target, render_page(run, found, name))


def render_page(run: ForeignRun, found: Survey, name: str) -> str:
    """The page; nothing from the log is taken for markup."""
    environment = Environment(loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, autoescape=True)
    words = {"healthy": "Nothing is wrong", "cannot_tell": "It cannot be told"}
    worst = found.findings[0] if found.findings else None
    headline = words.get(found.verdict) or (NAMES.get(worst.pathology, worst.kind) if worst else "Findings")
    return environment.get_template("diagnosis.html.j2").render(
        css=Markup((_TEMPLATES / "report.css").read_text(encoding="utf-8")),
        name=name,
        headline=headline[:1].upper() + headline[1:],
        run=run,
        rows=len(run.metrics),
        last=run.metrics.last_step,
        killed=found.kill[0] if found.kill else None,
        findings=[_finding(run.metrics, finding) for finding in found.findings],
        curves=[_curve(run.metrics, key, found.findings) for key in _SHOWN if run.metrics.values(key)],
        missing=", ".join(found.missing),
        log_next=found.log_next,
    )


def _finding(metrics: Metrics, finding: Finding) -> dict[str, Any]:
    advised = finding.severity is not Severity.INFO
    return {
        "class": finding.pathology,
        "name": NAMES.get(finding.pathology, finding.kind),
        "severity": str(finding.severity),
        "onset": finding.onset_step,
        "confidence": f"{finding.confidence:.0%}",
        "message": finding.message,
        "evidence": [
            {
                "words": f"{item.metric} {item.value:.4g}, limit {item.threshold:.4g}, "
                f"steps {item.steps[0]} to {item.steps[1]}",
                "curve": _svg(metrics, item.metric, [(finding.onset_step, finding.kind)]),
            }
            for item in finding.evidence
        ],
        "look_alikes": ", ".join(f"{one} {NAMES.get(one, one)}" for one in finding.told_from),
        "confirm": finding.confirm,
        "fixes": FIXES.get(finding.pathology, ()) if advised else (),
        "skills": ", ".join(SKILLS.get(finding.pathology, ())) if advised else "",
    }


def _curve(metrics: Metrics, key: str, findings: tuple[Finding, ...]) -> dict[str, Any]:
    marks = [
        (finding.onset_step, finding.kind) for finding in findings if finding.severity is not Severity.INFO
    ]
    values = metrics.values(key)
    return {
        "key": key,
        "low": f"{min(values):.4g}",
        "high": f"{max(values):.4g}",
        "svg": _svg(metrics, key, marks),
    }


def _svg(metrics: Metrics, key: str, marks: list[tuple[int, str]]) -> Markup:
    series = metrics.series(key)
    if not series:
        return Markup("")
    thinned = series[:: max(1, len(series) // 500)]
    return Markup(sparkline(thinned, Axes.around([thinned], metrics.last_step), key, marks))
