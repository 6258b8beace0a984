"""Diagnosis of running and ended nodes: facts for the diagnostics, findings into the journal, early kills."""

from __future__ import annotations

from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.contract.models import Control, JobResult
from autotrainer.diagnostics.triage import diagnose, first_kill
from autotrainer.search.audit import is_audited
from autotrainer.search.kill_rules import Behind
from autotrainer.search.repairs import OUT_OF_MEMORY, memory_finding
from autotrainer.study.own_diagnostics import record_own_findings
from autotrainer.study.runtime import Runtime
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState

PROBE = "probe/accuracy"
GRACE = ("num_generations", "prompts_per_step", "max_completion_length", "warmup_steps")
"""Knobs whose change slows a run down at first."""
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
        before = runtime.diagnosed_until(node.id)
        runtime.diagnosed_until(node.id, known)
        if killed is not None:
            kill(runtime, node, killed[0], metrics)
        elif node.proposal.purpose is Purpose.SEARCH:
            kill_if_behind(runtime, node, metrics, range(before + 1, known + 1))


def kill_if_behind(runtime: Runtime, node: Node, metrics: Metrics, steps: range) -> None:
    """Stop a node that is behind the others of its depth at a rung among these steps.

    A share of those is run on without anybody being told: what they come to shows what the rule costs. A node
    whose batch, cap or warm-up differs from its parent's has no rung: it has not had its time yet.
    """
    rule = Behind()
    rungs = [step for step in rule.rung_steps(node.proposal.recipe.steps) if step in steps]
    if not rungs or _in_grace(runtime, node):
        return
    depth = runtime.tree.depth(node.id)
    others = [
        runtime.metrics(other.id).series(PROBE)
        for other in runtime.tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL)
        if other.attempt and other.id != node.id and runtime.tree.depth(other.id) == depth
    ]
    reason = rule.reason(metrics.series(PROBE), others, rungs[-1])
    if reason is None:
        return
    if is_audited(runtime.config.seed, node.id):
        data = {"audit": node.id, "rule": rule.name, "step": rungs[-1], "reason": reason}
        runtime.record(
            "note", text=f"{node.id} runs on although {rule.name}: an audit of the rule", data=data
        )
        return
    runtime.record("kill_requested", node=node.id, rule=rule.name, reason=f"{rule.name}: {reason}")
    request_stop(runtime, node.job_id, reason, now=True)


def _in_grace(runtime: Runtime, node: Node) -> bool:
    start = node.proposal.start
    if start.mode == "base" or start.node is None:
        return False
    mine, theirs = (
        node.proposal.recipe.stages[-1].knobs,
        runtime.tree[start.node].proposal.recipe.stages[-1].knobs,
    )
    return any(mine.get(name) != theirs.get(name) for name in GRACE)


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
