"""P01: groups whose completions all get the same reward teach nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.series import REWARD, ZERO_STD, onset, reward_top, span, tied_rows
from autotrainer.tree.finding import Evidence, Finding, Severity

_ROWS = 20
_TIES = 0.9
_HARD = 0.05
_SATURATED = 0.9


class ZeroAdvantage:
    """Nine groups in ten without differences over the last 20 rows, read with the level of the reward.

    The share alone is normal on an easy task. Reward near 0: too hard; near the maximum: used up; in between:
    no diversity.
    """

    kind: ClassVar[str] = "zero_advantage"
    pathology: ClassVar[str] = "P01"
    needs: ClassVar[frozenset[str]] = frozenset({REWARD, ZERO_STD})
    min_steps: ClassVar[int] = 10

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """At most one finding; its first evidence is the share of ties, its second the reward."""
        rows = tied_rows(metrics, context)
        if len(rows) < self.min_steps:
            return
        window = rows[-_ROWS:]
        ties = fmean(values[ZERO_STD] for _, values in window)
        if ties < _TIES:
            return
        level, top = fmean(values[REWARD] for _, values in window), reward_top(metrics, context)
        steps = span([step for step, _ in window])
        reading, pathology, limit = _reading(level, top)
        lost = level <= _HARD * top and ties >= 0.98
        yield Finding(
            kind=self.kind,
            pathology=pathology,
            severity=Severity.CRITICAL if lost else Severity.WARNING,
            confidence=0.9 if len(window) == _ROWS else 0.7,
            onset_step=min(steps[0], onset([(step, values[ZERO_STD]) for step, values in rows], _tied)),
            message=f"{ties:.0%} of the groups have one reward each ({level:.3g} on average): {reading}",
            evidence=(Evidence(ZERO_STD, steps, ties, _TIES), Evidence(REWARD, steps, level, limit)),
            confirm="20 completions read by group",
            told_from=("P02", "P03", "P08", "P28"),
        )


def _reading(level: float, top: float) -> tuple[str, str, float]:
    if level <= _HARD * top:
        return "too hard, or the reward cannot be earned", "P01", _HARD * top
    if level >= _SATURATED * top:
        return "used up, the prompts are solved", "P08", _SATURATED * top
    return "no diversity inside the groups", "P01", _SATURATED * top


def _tied(share: float) -> bool:
    return share >= _TIES
