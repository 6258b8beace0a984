"""Rule helpers: a short log is read by its first and last rows, and what is missing is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean

from autotrainer.contract.metrics import Metrics
from autotrainer.tree.finding import Evidence, Finding, Severity

Rule = Callable[[Metrics], Iterable[Finding]]
WIDTH = 5


def head(metrics: Metrics, key: str, width: int = WIDTH) -> float | None:
    """The mean of a key's first values; None where it was not logged."""
    values = metrics.values(key)[:width]
    return fmean(values) if values else None


def tail(metrics: Metrics, key: str, width: int = WIDTH) -> float | None:
    """The mean of a key's last values; None where it was not logged."""
    values = metrics.values(key)[-width:]
    return fmean(values) if values else None


def first(metrics: Metrics, key: str) -> float | None:
    """The first value of a key."""
    values = metrics.values(key)
    return values[0] if values else None


def shows_start(metrics: Metrics) -> bool:
    """Whether the log begins at the run's beginning."""
    return bool(metrics.rows) and int(metrics.rows[0]["step"]) <= 10


def thriving(metrics: Metrics, share: float = 0.5) -> bool:
    """Whether the reward is near the top of a share's scale, or has risen and stays near its best.

    `share` is how much of the range seen it must have risen by, from the first third to the last.
    """
    values = metrics.values("reward")
    if len(values) < 6:
        return False
    width = max(2, len(values) // 3)
    start, end = fmean(values[:width]), fmean(values[-width:])
    means = [fmean(values[i : i + width]) for i in range(len(values) - width + 1)]
    best, span = max(means), max(means) - min(means)
    if span > 0 and min(values) >= 0.0 and max(values) <= 1.0 and end >= 0.75 and end >= best - 0.15:
        return True
    return span > 0 and end - start >= share * span and best - end <= 0.15 * span and end - start > 0.1


def steps_of(metrics: Metrics, key: str) -> tuple[int, int]:
    """First and last step at which a key was logged."""
    series = metrics.series(key)
    return (series[0][0], series[-1][0]) if series else (0, 0)


def since(metrics: Metrics, key: str, holds: Callable[[float], bool]) -> int:
    """The step from which a condition on a key holds without a break to the end; the last step otherwise."""
    start = metrics.last_step
    for step, value in reversed(metrics.series(key)):
        if not holds(value):
            break
        start = step
    return start


def found(
    kind: str,
    pathology: str,
    metrics: Metrics,
    key: str,
    value: float,
    limit: float,
    message: str,
    *,
    severity: Severity = Severity.WARNING,
    confidence: float = 0.7,
    onset: int | None = None,
    confirm: str = "",
    told_from: tuple[str, ...] = (),
    kills: bool = False,
) -> Finding:
    """A finding with one piece of evidence."""
    steps = steps_of(metrics, key)
    return Finding(
        kind=kind,
        pathology=pathology,
        severity=severity,
        confidence=confidence,
        onset_step=steps[0] if onset is None else onset,
        message=message,
        evidence=(Evidence(key, steps, value, limit),),
        confirm=confirm,
        told_from=told_from,
        kills=kills,
    )
