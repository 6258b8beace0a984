"""P03, P04, P05: completions that do not end by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import CLIPPED, onset, span
from autotrainer.tree.finding import Evidence, Finding, Severity

_START = 5
_TAIL = 10
_CAPPED = 0.3
_ENDLESS = 0.5
_STILL = 0.6


class Truncation:
    """Finds completions that are cut.

    Cut from the start and still cut: the cap is too small (P03). Cut only later: the policy forgot how to
    stop (P04), or repeats itself (P05, where `text/repetition` rose with it).

    Truncation that falls, or that a run passes through and leaves, is no finding.
    """

    kind: ClassVar[str] = "truncation"
    pathology: ClassVar[str] = "P03"
    needs: ClassVar[frozenset[str]] = frozenset({CLIPPED})
    min_steps: ClassVar[int] = _START + _TAIL

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most one finding.

        Its first evidence is the share cut in the last rows, its second that at the start.
        """
        series = metrics.series(CLIPPED)
        if len(series) < self.min_steps:
            return
        head, tail = series[:_START], series[-_TAIL:]
        start, now = fmean(value for _, value in head), fmean(value for _, value in tail)
        if start >= _CAPPED and now >= max(_CAPPED, _STILL * start):
            pathology, limit, begin = "P03", _CAPPED, series[0][0]
            reading = "the cap is below what an answer needs"
        elif start < _CAPPED and now >= _ENDLESS:
            pathology, limit, begin = (
                _endless(metrics),
                _ENDLESS,
                onset(series, lambda share: share >= _CAPPED),
            )
            reading = "repetition" if pathology == "P05" else "completions no longer end by themselves"
        else:
            return
        cap = context.get("max_completion_length")
        yield Finding(
            kind=self.kind,
            pathology=pathology,
            severity=Severity.WARNING,
            confidence=0.85,
            onset_step=begin,
            message=f"{now:.0%} of the completions are cut"
            + (f" at {cap} tokens" if cap else "")
            + f", {start:.0%} at the start: {reading}",
            evidence=(
                Evidence(CLIPPED, span([step for step, _ in tail]), now, limit),
                Evidence(CLIPPED, span([step for step, _ in head]), start, _CAPPED),
            ),
            confirm="the ends of ten cut completions",
            told_from=("P02", "P05" if pathology != "P05" else "P04", "P10"),
        )


def _endless(metrics: Metrics) -> str:
    repetition = metrics.values("text/repetition")
    risen = len(repetition) >= 2 * _START and fmean(repetition[-_START:]) >= fmean(repetition[:_START]) + 0.2
    return "P05" if risen else "P04"
