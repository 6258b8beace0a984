"""Diagnosis of running and ended nodes: facts for the diagnostics, findings into the journal, early kills."""

from __future__ import annotations

from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.contract.models import Control, JobResult
from autotrainer.diagnostics.triage import diagnose, first_kill
from autotrainer.search.repairs import OUT_OF_MEMORY, memory_finding
from autotrainer.study.own_diagnostics import record_own_findings
from autotrainer.study.runtime import Runtime
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState

EVERY = 5
"""Kill rules look at prefixes of so many steps: what they decide does not depend on when the loop looks."""


def facts(runtime: Runtime, node: Node) -> dict[str, Any]:
    """What thresholds depend on: the last stage's knobs, its length, its start, the base model's accuracy."""
    stage = node.proposal.recipe.stages[-1]
    base = runtime.tree.nodes[0].score("dev")
    return {
        **stage.knobs,
        "steps": node.proposal.recipe.steps,
        "fork": node.proposal.start.mode != "base",
        "base_accuracy": base,
    }


def diagnose_running(runtime: Runtime) -> None:
    """Apply the kill rules to every running node of the search.

    A killed node's findings are those known at the step where the rule held.
    """
    if not runtime.config.search.kill:
        return
    for node in runtime.tree.with_state(NodeState.RUNNING):
        if node.kill_reason or node.proposal.purpose not in (Purpose.SEARCH, Purpose.CAREFUL):
            continue
        metrics = runtime.metrics(node.id)
        known = metrics.last_step // EVERY * EVERY
        if known <= runtime.diagnosed_until(node.id):
            continue
        killed = first_kill(
            metrics.until(known), facts(runtime, node), EVERY, after=runtime.diagnosed_until(node.id)
        )
        runtime.diagnosed_until(node.id, known)
        if killed is not None:
            kill(runtime, node, killed[0], metrics)


def kill(runtime: Runtime, node: Node, step: int, metrics: Metrics) -> None:
    """Record the findings known at `step` and ask the job to stop now."""
    findings = diagnose(metrics.until(step), facts(runtime, node))
    fatal = next(finding for finding in findings if finding.kills)
    for finding in findings:
        runtime.record("node_finding", node=node.id, finding=finding.to_json())
    reason = f"{fatal.kind} at step {step}: {fatal.message}"
    runtime.record("kill_requested", node=node.id, rule=fatal.kind, reason=reason)
    request_stop(runtime, node.job_id, reason, now=True)


def record_findings(runtime: Runtime, node: Node) -> None:
    """Diagnose a node whose training ended, unless a kill rule did."""
    if node.findings or node.kill_reason:
        return
    for finding in diagnose(runtime.metrics(node.id), facts(runtime, node)):
        runtime.record("node_finding", node=node.id, finding=finding.to_json())
    record_own_findings(runtime, runtime.tree[node.id])


def record_out_of_memory(runtime: Runtime, node: Node, result: JobResult) -> None:
    """Record that a job ran out of memory, once."""
    if not any(finding.kind == OUT_OF_MEMORY for finding in node.findings):
        finding = memory_finding(node, result)
        runtime.record("node_finding", node=node.id, finding=finding.to_json())


def request_stop(runtime: Runtime, job_id: str, reason: str, *, now: bool) -> None:
    """Add a stop to a job's control.json, once."""
    path = runtime.paths.job(job_id) / "control.json"
    control = Control.read(path) if path.is_file() else Control()
    if any(request.kind in ("stop", "stop_now") for request in control.requests):
        return
    control.with_request("stop_now" if now else "stop", reason=reason).write(path)
