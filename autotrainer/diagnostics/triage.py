"""Triage: every diagnostic in the order of questions, look-alikes resolved; and the kill rule built on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.base import Diagnostic
from autotrainer.diagnostics.collapse import Collapse
from autotrainer.diagnostics.healthy import Healthy
from autotrainer.diagnostics.nonfinite import NonFinite
from autotrainer.diagnostics.registry import kinds, shipped
from autotrainer.tree.finding import Finding, Severity

_KILLERS: tuple[Diagnostic, ...] = (NonFinite(), Collapse())

_EXPLAINS: Mapping[str, frozenset[str]] = {
    "collapse": frozenset(
        {"zero_advantage", "under_training", "drift", "entropy_collapse", "reward_decline", "truncation"}
    ),
    "entropy_collapse": frozenset({"zero_advantage"}),
    "zero_advantage": frozenset({"under_training"}),
}
"""What a finding makes a mere consequence, whichever moved first."""

_LEADS: Mapping[str, frozenset[str]] = {
    "drift": frozenset({"reward_decline", "truncation", "zero_advantage"}),
    "truncation": frozenset({"reward_decline", "zero_advantage"}),
    "entropy_collapse": frozenset({"reward_decline"}),
}
"""What a finding explains only where it moved first."""


def diagnose(metrics: Metrics, context: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of a run in the order of questions, look-alikes resolved.

    Consequences are left out; `healthy` stands alone where nothing is wrong.

    Pure. A finding that explains another names its pathology in `told_from`.
    """
    found = [finding for diagnostic in shipped() for finding in _ask(diagnostic, metrics, context)]
    resolved = _resolve(found)
    if any(finding.severity is not Severity.INFO for finding in resolved):
        return tuple(finding for finding in resolved if finding.kind != Healthy.kind)
    return tuple(resolved)


def first_kill(
    metrics: Metrics, context: Mapping[str, Any], every: int, after: int = 0
) -> tuple[int, Finding] | None:
    """The first checked step at which what was known is a reason to stop, and that reason.

    The first step, of those that `every` divides, at which what was known then is a reason to stop; and that
    reason.

    The answer depends on the metrics and `every` alone, not on when or how often it is asked: each prefix is
    judged by itself. `after` skips the boundaries up to a step that an earlier call has found harmless.

    Raises:
        ValueError: `every` is less than 1.
    """
    if every < 1:
        raise ValueError(f"every = {every} is not allowed: kill rules look at prefixes of at least 1 step")
    for boundary in range((after // every + 1) * every, metrics.last_step + 1, every):
        known = metrics.until(boundary)
        for diagnostic in _KILLERS:
            for finding in _ask(diagnostic, known, context):
                if finding.kills:
                    return boundary, finding
    return None


def _ask(diagnostic: Diagnostic, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
    if len(metrics) < diagnostic.min_steps or any(not metrics.values(key) for key in diagnostic.needs):
        return ()
    return diagnostic.check(metrics, context)


def _resolve(found: Sequence[Finding]) -> list[Finding]:
    explained: dict[int, list[str]] = {}
    dropped: set[int] = set()
    for one, finding in enumerate(found):
        for other, candidate in enumerate(found):
            if one != other and _accounts_for(finding, candidate):
                dropped.add(other)
                explained.setdefault(one, []).append(candidate.pathology)
    return [
        replace(finding, told_from=tuple(dict.fromkeys((*finding.told_from, *explained.get(index, ())))))
        for index, finding in enumerate(found)
        if index not in dropped
    ]


def _accounts_for(finding: Finding, other: Finding) -> bool:
    if finding.kind == NonFinite.kind and finding.kills:
        return other.kind in kinds() - {NonFinite.kind}
    if other.kind in _EXPLAINS.get(finding.kind, frozenset()):
        return True
    return other.kind in _LEADS.get(finding.kind, frozenset()) and finding.onset_step <= other.onset_step
