"""Kill rules: when a running node is stopped early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import ClassVar, Protocol

from autotrainer.tree.finding import Finding


class KillRule(Protocol):
    """Decides from what is known at a step. Pure; never looks at the filtered training reward."""

    name: ClassVar[str]

    def reason(self, findings: Sequence[Finding]) -> Finding | None:
        """The finding to stop the node for, or None to let it run."""
        ...


@dataclass(frozen=True, slots=True)
class FatalFinding:
    """Stop a node at the earliest finding that is itself a reason to stop."""

    name: ClassVar[str] = "fatal-finding"

    def reason(self, findings: Sequence[Finding]) -> Finding | None:
        """The killing finding of earliest onset; the surer one where onsets are equal."""
        fatal = [finding for finding in findings if finding.kills]
        return min(fatal, key=lambda finding: (finding.onset_step, -finding.confidence), default=None)


Probes = Sequence[tuple[int, float]]
"""(step, accuracy on the probe) of one run, ascending; frozen code scores the probe, nothing trains on it."""


@dataclass(frozen=True, slots=True)
class Behind:
    """Stop a node that is behind the others of its depth, at a rung like those of successive halving.

    Runs of one depth have equally many steps behind them and before them. At each rung (a share of the node's
    steps) a run's level is the mean of its newest probe values by then, at most `window` of them; it is
    stopped where it is in the lower part of the runs that have come as far, and `margin` standard errors of a
    difference below the best of them. Li et al. (2020), with a margin for the noise of a small probe.
    """

    name: ClassVar[str] = "behind"
    rungs: tuple[float, ...] = (0.5,)
    keep: float = 0.5
    margin: float = 2.5
    window: int = 3
    least: int = 4
    items: int = 128
    """Items of the probe, for its standard error."""

    def rung_steps(self, steps: int) -> tuple[int, ...]:
        """The steps at which runs are compared."""
        return tuple(max(1, int(share * steps)) for share in self.rungs)

    def level(self, probes: Probes, step: int) -> float | None:
        """A run's level at a step; None where it has no probe value by then, or has not come as far."""
        if not probes or probes[-1][0] < step:
            return None
        known = [value for at, value in probes if at <= step][-self.window :]
        return fmean(known) if known else None

    def reason(self, own: Probes, others: Sequence[Probes], step: int) -> str | None:
        """Why the run is stopped at this rung, or None."""
        mine = self.level(own, step)
        levels = [level for probes in others if (level := self.level(probes, step)) is not None]
        if mine is None or len(levels) < self.least:
            return None
        place = sum(level > mine for level in levels)
        best = max(levels)
        error = self._error(best, own, step)
        if place < self.keep * (len(levels) + 1) or best - mine < self.margin * error:
            return None
        return (
            f"probe accuracy {mine:.3f} by step {step} is behind {place} of {len(levels)} runs of the same "
            f"depth; the best has {best:.3f}, a standard error is {error:.3f}"
        )

    def _error(self, level: float, own: Probes, step: int) -> float:
        """Standard error of the difference of two levels; the items are the same, so it is too large."""
        count = min(self.window, sum(at <= step for at, _ in own))
        return sqrt(2 * max(level * (1 - level), 0.01) / (self.items * max(1, count)))
