"""survey: the findings of a foreign run, worst first, or why nothing can be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.readers.run import ForeignRun
from autotrainer.diagnostics.survey import benign, course, start
from autotrainer.diagnostics.survey.rule import Rule, thriving
from autotrainer.diagnostics.triage import diagnose, first_kill
from autotrainer.tree.finding import Finding, Severity

_RULES: tuple[Rule, ...] = (
    benign.nonfinite,
    start.reference,
    course.critic,
    start.truncated,
    start.capped,
    start.silent,
    course.pushed_by_kl,
    start.components,
    start.unpaid,
    course.gradient,
    course.mismatch,
    course.still,
    course.peaked,
    course.collapse,
    course.lengths,
    course.hacking,
    course.stale,
    course.tools,
    benign.explained,
)
_ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_WANTED = (
    "reward", "reward_std", "frac_reward_zero_std", "kl", "entropy", "grad_norm", "completions/mean_length",
    "completions/clipped_ratio", "sampling/sampling_logp_difference/mean", "probe/accuracy",
)  # fmt: skip
"""What a full diagnosis reads; a key that was not logged limits what can be said."""
_ENOUGH = 3
_SAYS = {
    "reward": "the reward",
    "frac_reward_zero_std": "the share of groups whose rewards are all equal",
    "kl": "the kl",
    "entropy": "the entropy",
    "probe/accuracy": "a score that the policy is not paid for",
}


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a run."""

    verdict: str
    """healthy, findings or cannot_tell."""
    findings: tuple[Finding, ...]
    kill: tuple[int, Finding] | None
    missing: tuple[str, ...]
    log_next: tuple[str, ...]
    """What to log, or run, so that more can be said."""


def survey(run: ForeignRun, context: dict[str, Any] | None = None) -> Survey:
    """Diagnose a run that somebody else made; pure."""
    metrics, known = run.metrics, context or {}
    findings = [*diagnose(metrics, known), *(item for rule in _RULES for item in rule(metrics))]
    merged = _merged([_judged(metrics, finding) for finding in findings])
    killed = first_kill(metrics, known, max(1, len(metrics) // 40)) if len(metrics) >= 10 else None
    missing = tuple(key for key in _WANTED if not metrics.values(key))
    real = [finding for finding in merged if finding.severity is not Severity.INFO]
    if real:
        verdict = "findings"
        merged = [finding for finding in merged if finding.kind not in ("healthy", "benign")]
    elif (
        len(metrics) < _ENOUGH and not any(finding.pathology == "P30" for finding in merged)
    ) or not metrics.values("reward"):
        verdict = "cannot_tell"
    else:
        verdict = "healthy"
    return Survey(verdict, tuple(merged), killed, missing, _next(metrics, missing, verdict))


_COSTS_NOTHING = frozenset({"P01", "P03", "P04", "P05", "P06", "P08", "P09", "P11", "P13", "P15"})
"""Classes that a run passes through, or lives with, while it learns: no fault where the reward is high or rises."""


def _judged(metrics: Metrics, finding: Finding) -> Finding:
    """A finding as information where the run does well in spite of it."""
    if finding.kind == "entropy_collapse" and finding.confidence == 0.8:
        return finding
    finding = _cause(metrics, finding)
    saturated = finding.pathology == "P08" and finding.kind == "zero_advantage"
    stuck_cap = finding.pathology == "P03" and finding.confidence >= 0.65 and not thriving(metrics, 1.0)
    if saturated or (finding.pathology in _COSTS_NOTHING and thriving(metrics) and not stuck_cap):
        return replace(finding, severity=Severity.INFO, kills=False)
    return finding


def _cause(metrics: Metrics, finding: Finding) -> Finding:
    """An early collapse in which entropy exploded, at a learning rate that is not known to be far too high, is P10."""
    exploded = any(item.metric == "entropy" and item.value > item.threshold for item in finding.evidence)
    rate = max(metrics.values("learning_rate"), default=0.0)
    if finding.kind == "collapse" and finding.pathology == "P12" and exploded and rate < 1e-3:
        return replace(finding, pathology="P10")
    return finding


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    """One finding a class, the worst and surest; worst first."""
    best: dict[str, Finding] = {}
    for finding in findings:
        old = best.get(finding.pathology)
        if old is None or _rank(finding) < _rank(old):
            best[finding.pathology] = (
                finding
                if old is None
                else replace(finding, onset_step=min(finding.onset_step, old.onset_step))
            )
    return sorted(_resolved(list(best.values())), key=_rank)


def _rank(finding: Finding) -> tuple[int, float, int]:
    return (_ORDER[finding.severity], -finding.confidence, finding.onset_step)


_CAUSES = {
    "P14": {"P09", "P10", "P11", "P13", "P01", "P03", "P04", "P28", "P05", "P06"},
    "P12": {"P09", "P01", "P13", "P28", "P14", "P23"},
    "P28": {"P13", "P30"},
    "P27": {"P11"},
}
"""By class: what it makes a mere consequence."""


def _resolved(findings: list[Finding]) -> list[Finding]:
    there = {finding.pathology for finding in findings if finding.severity is not Severity.INFO}
    dropped = {other for cause, others in _CAUSES.items() if cause in there for other in others}
    return [finding for finding in findings if finding.pathology not in dropped]


def _next(metrics: Metrics, missing: Sequence[str], verdict: str) -> tuple[str, ...]:
    advice = [f"log {key} ({_SAYS[key]})" for key in missing if key in _SAYS]
    if len(metrics) < 20:
        advice.append("show more of the run: at least 20 rows")
    return tuple(advice) if verdict != "findings" else tuple(advice[:2])
