"""`autotrainer diagnose`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrainer.cli.options import JsonOption, print_json

if TYPE_CHECKING:
    from autotrainer.diagnostics.readers.run import ForeignRun
    from autotrainer.diagnostics.survey.survey import Survey
    from autotrainer.tree.finding import Finding


def diagnose(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="Log, table, trainer_state.json, metrics.jsonl, event folder."),
    ],
    format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Instead of what is detected.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page with the curves.")
    ] = None,
    group: Annotated[
        int | None, typer.Option("--prompts-per-step", min=1, help="A fact of the run that thresholds use.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Name what is wrong with a run, ours or anyone's, from its log alone.

    No GPU, no key, no study. Exit code 0: healthy; 1: findings, or it cannot be told; 2: unreadable.
    """
    from autotrainer.diagnostics.readers.run import read_runs
    from autotrainer.diagnostics.survey.survey import survey

    runs = read_runs(path, format)
    run = max(runs, key=lambda item: len(item.metrics))
    known = {} if group is None else {"prompts_per_step": group}
    found = survey(run, known)
    if html is not None:
        from autotrainer.ui.diagnosis_page import write_page

        write_page(run, found, path.name, html)
    if json_output:
        print_json(to_json(run, found, len(runs)))
    else:
        for line in lines(run, found, path, len(runs)):
            typer.echo(line)
        if html is not None:
            typer.echo(f"page  {html}")
    if found.verdict != "healthy":
        raise typer.Exit(1)


def to_json(run: ForeignRun, found: Survey, runs: int) -> dict[str, Any]:
    """The document that programs read."""
    from autotrainer.diagnostics.survey.fixes import FIXES, NAMES, SKILLS

    stop = found.kill
    return {
        "schema_version": 1,
        "verdict": found.verdict,
        "kill": {
            "stop": stop is not None,
            "step": stop[0] if stop else None,
            "rule": stop[1].kind if stop else None,
        },
        "format": run.format,
        "runs": runs,
        "steps": run.metrics.last_step,
        "rows": len(run.metrics),
        "missing_keys": list(found.missing),
        "log_next": list(found.log_next),
        "findings": [
            {
                "class": finding.pathology,
                "name": NAMES.get(finding.pathology, finding.kind),
                **{key: value for key, value in finding.to_json().items() if key != "pathology"},
                "fixes": list(FIXES.get(finding.pathology, ())),
                "skills": list(SKILLS.get(finding.pathology, ())),
            }
            for finding in found.findings
        ],
    }


def lines(run: ForeignRun, found: Survey, path: Path, runs: int) -> Iterator[str]:
    """Findings first, their evidence as small curves, then fixes."""
    verdict = {"healthy": "healthy", "findings": "findings", "cannot_tell": "cannot tell"}[found.verdict]
    several = f", the longest of {runs} runs in it" if runs > 1 else ""
    counted = ", steps counted by rows" if run.counted else ""
    size = f"{len(run.metrics)} rows to step {run.metrics.last_step}"
    yield f"{path}: {verdict} ({run.format}, {size}{several}{counted})"
    if found.kill is not None:
        yield f"a kill rule would have stopped it at step {found.kill[0]}: {found.kill[1].message}"
    for finding in found.findings:
        yield from _finding(run, finding)
    if found.missing:
        yield f"not logged, so not looked at: {', '.join(found.missing)}"
    for advice in found.log_next:
        yield f"to know more: {advice}"


def _finding(run: ForeignRun, finding: Finding) -> Iterator[str]:
    from autotrainer.diagnostics.survey.fixes import FIXES, NAMES, SKILLS
    from autotrainer.ui.blocks import blocks

    yield ""
    name = NAMES.get(finding.pathology, finding.kind)
    yield (
        f"{finding.severity.upper():8} {finding.pathology} {name}, from step {finding.onset_step}, "
        f"confidence {finding.confidence:.0%}"
    )
    yield f"  {finding.message}"
    for item in finding.evidence[:3]:
        curve = blocks(run.metrics.values(item.metric))
        span = f"steps {item.steps[0]}-{item.steps[1]}"
        yield f"  {item.metric} {item.value:.4g} (limit {item.threshold:.4g}, {span})  {curve}"
    if finding.told_from:
        yield f"  looks like {', '.join(f'{one} {NAMES.get(one, one)}' for one in finding.told_from[:3])}"
    if finding.confirm:
        yield f"  would confirm it: {finding.confirm}"
    if finding.severity != "info":
        for number, fix in enumerate(FIXES.get(finding.pathology, ()), start=1):
            yield f"  {number}. {fix}"
        if skills := SKILLS.get(finding.pathology):
            yield f"  skills: {', '.join(skills)}"
