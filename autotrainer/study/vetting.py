"""Vetting of edits: paths, syntax and lint, screen, conformance, smoke run; the first no counts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace

from autotrainer.contract.metrics import Metrics
from autotrainer.contract.models import JobResult
from autotrainer.errors import WorkspaceError
from autotrainer.planners.llm.desk import Edited, VetResult
from autotrainer.recipe.recipe import Recipe
from autotrainer.study.own_diagnostics import separates
from autotrainer.study.runtime import Runtime
from autotrainer.study.smoke import smoke_job
from autotrainer.tree.proposal import Proposal
from autotrainer.workspace.conformance import check_diagnostic, check_stage
from autotrainer.workspace.edits import check_path
from autotrainer.workspace.screen import screen, syntax

SMOKE_STEPS = 2
SMOKE_LIMIT_S = 120.0


def vet(runtime: Runtime, proposal: Proposal, edited: Edited) -> VetResult:
    """The verdict of the first gate that refuses, or of all.

    The smoke run trains the proposal's last stage for two steps from the base model, isolated like any job;
    its device time is charged. Diagnostics do not run in jobs: they are run over past runs instead, and have
    to tell bad ones from good ones.
    """
    gates: list[tuple[str, Callable[[], Sequence[str]]]] = [
        ("paths and size", lambda: _paths(edited)),
        (
            "syntax and lint",
            lambda: [row for path, text in edited.files.items() for row in syntax(path, text)],
        ),
        ("screen", lambda: [row for path, text in edited.files.items() for row in screen(path, text)]),
        ("conformance", lambda: _conformance(proposal, edited)),
    ]
    if edited.diagnostics:
        gates.append(("diagnostic on past runs", lambda: _diagnostics(runtime, edited)))
    if edited.patch:
        gates.append(("smoke run", lambda: _smoke(runtime, proposal)))
    ran: list[str] = []
    for name, run in gates:
        ran.append(name)
        reasons = list(run())
        if reasons:
            return VetResult(False, name, "; ".join(reasons[:6])[:2000], tuple(ran))
    return VetResult(True, "", "", tuple(ran))


def _paths(edited: Edited) -> list[str]:
    found = []
    for path in edited.files:
        try:
            check_path(path)
        except WorkspaceError as error:
            found.append(str(error))
    return found


def _conformance(proposal: Proposal, edited: Edited) -> list[str]:
    found = check_stage(proposal.recipe.stages[-1], edited.files)
    for path, text in edited.files.items():
        if path.startswith("diagnostics/"):
            found += check_diagnostic(path, text)
    return found


def _diagnostics(runtime: Runtime, edited: Edited) -> list[str]:
    reasons = ((name, separates(runtime, text)) for name, text in edited.diagnostics.items())
    return [f"{name}: {reason}" for name, reason in reasons if reason is not None]


def _smoke(runtime: Runtime, proposal: Proposal) -> list[str]:
    """Two steps of the proposal's last stage with the edits; what went wrong."""
    number = 1 + sum(1 for _ in (runtime.paths.root / "smoke").glob("*"))
    node, job_id = f"vet{number}", f"smoke.{number}"
    workspace = runtime.paths.workspace(node)
    try:
        runtime.build(runtime.paths, node, proposal, runtime.tree, runtime.library)
        stage = replace(proposal.recipe.stages[-1], steps=SMOKE_STEPS)
        recipe = Recipe(proposal.recipe.model, proposal.recipe.task, (stage,), proposal.recipe.seed)
        result = _run(runtime, job_id, recipe, node)
        return _judge(runtime, job_id, result)
    except WorkspaceError as error:
        return [str(error)]
    finally:
        shutil.rmtree(workspace.parent, ignore_errors=True)


def _run(runtime: Runtime, job_id: str, recipe: Recipe, node: str) -> JobResult:
    wall_s = SMOKE_LIMIT_S + 2.0 * runtime.plan.cost.startup_s
    result = smoke_job(runtime, job_id, recipe, runtime.paths.workspace(node), wall_s=wall_s)
    usage = runtime.job(job_id).usage()
    runtime.record("charge", what=f"vetting {job_id}", device_s=usage.device_seconds if usage else 0.0)
    return result


def _judge(runtime: Runtime, job_id: str, result: JobResult) -> list[str]:
    if result.status != "completed":
        failure = result.failure
        where = f" ({failure.file}:{failure.line})" if failure is not None and failure.file else ""
        return [f"two steps with the edit {result.status}: {result.reason}{where}"]
    metrics = Metrics.read(runtime.paths.job(job_id) / "metrics.jsonl")
    bad = metrics.nonfinite()
    if bad:
        return [f"two steps with the edit gave a non-finite {bad[0][1]} at step {bad[0][0]}"]
    if not metrics.rows:
        return ["two steps with the edit left no metrics"]
    return []
