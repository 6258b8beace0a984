"""What skills ask of findings, recipes and metrics: small pure helpers, so that a skill.py stays short."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from autotrainer.contract.metrics import Metrics
from autotrainer.recipe.knobs import KnobValue, knob
from autotrainer.recipe.recipe import HookRef, Recipe
from autotrainer.tree.finding import Finding, Severity

_URGENCY = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_ROWS = 10


def treated(findings: Sequence[Finding], *kinds: str) -> Finding | None:
    """The most urgent finding of these kinds, the earliest where several are; None without one."""
    return min(
        (finding for finding in findings if finding.kind in kinds),
        key=lambda finding: (_URGENCY[finding.severity], finding.onset_step, finding.kind),
        default=None,
    )


def measured(finding: Finding, metric: str) -> float | None:
    """The value that the finding's evidence holds for a metric."""
    return next((item.value for item in finding.evidence if item.metric == metric), None)


def still_rises(findings: Sequence[Finding]) -> bool | None:
    """Whether a healthy run's reward still rises; None where no `healthy` finding says so."""
    finding = treated(findings, "healthy")
    if finding is None or not finding.evidence:
        return None
    return finding.evidence[0].value > finding.evidence[0].threshold


def number(recipe: Recipe, name: str, default: float) -> float:
    """A numeric knob of the last stage; `default` where the stage leaves it to the trainer."""
    return float(recipe.stages[-1].knobs.get(name, default))


def within(name: str, value: float) -> KnobValue:
    """The value rounded to three digits and moved inside the knob's bounds, as the knob's type."""
    turned = knob(name)
    limited = min(turned.high, max(turned.low, float(f"{value:.3g}")))
    return turned.check(round(limited) if turned.kind is int else limited)


def scaled(recipe: Recipe, name: str, factor: float, default: float) -> KnobValue:
    """A knob of the last stage times a factor, within its bounds."""
    return within(name, factor * number(recipe, name, default))


def has_hook(recipe: Recipe, ref: str) -> bool:
    """Whether the last stage has the hook."""
    return any(hook.ref == ref for hook in recipe.stages[-1].hooks)


def hook(point: str, ref: str, **params: KnobValue) -> HookRef:
    """A hook at a point of the harness.

    Raises:
        ValueError: there is no such point.
    """
    match point:
        case "sampler" | "rollouts" | "rewards" | "advantages" | "loss" | "callbacks":
            return HookRef(point, ref, params)
        case _:
            raise ValueError(
                f"{point!r} is not a hook point: sampler, rollouts, rewards, advantages, loss, callbacks are"
            )


def level(metrics: Metrics, key: str) -> float | None:
    """The mean of a key's last ten values; None where it was not logged."""
    values = metrics.values(key)[-_ROWS:]
    return fmean(values) if values else None


def moved(before: Metrics, after: Metrics, key: str, direction: str) -> bool | None:
    """Whether the last level of a key went `up` or `down` from one run to the next.

    None where one did not log it.
    """
    old, new = level(before, key), level(after, key)
    if old is None or new is None:
        return None
    return new > old if direction == "up" else new < old
