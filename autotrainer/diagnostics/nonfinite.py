"""P14: NaN or infinity in training; and P30, where only an averaged metric shows one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from autotrainer.contract.metrics import Metrics
from autotrainer.tree.finding import Evidence, Finding, Severity

_TRAINING = frozenset({"loss", "grad_norm", "reward"})
_PERSISTS = 3


class NonFinite:
    """Values that are not finite in what training uses: loss, gradient, reward, or the recorder's own count.

    Three rows in a row, the last among them, do not come back: that kills. A single one is a warning; one in
    a metric that training does not use is an artefact of averaging and only information.
    """

    kind: ClassVar[str] = "nonfinite"
    pathology: ClassVar[str] = "P14"
    needs: ClassVar[frozenset[str]] = frozenset()
    min_steps: ClassVar[int] = 1

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """One finding about training, or else one about metrics."""
        if not metrics.rows:
            return
        used = _TRAINING | ({"kl"} if float(context.get("beta") or 0.0) > 0 else frozenset())
        where = [(step, key) for step, key in metrics.nonfinite() if key in used]
        where += [(step, "nonfinite") for step, count in metrics.series("nonfinite") if count > 0]
        if where:
            yield _training(metrics, sorted(where))
        elif others := metrics.nonfinite():
            step, key = others[0]
            yield Finding(
                kind=self.kind,
                pathology="P30",
                severity=Severity.INFO,
                confidence=0.7,
                onset_step=step,
                message=f"{key} is not finite at step {step}, loss and gradient are: the metric's fault",
                evidence=(Evidence(key, (step, others[-1][0]), float(len(others)), 0.0),),
                confirm="loss and grad_norm stay finite in the following steps",
                told_from=("P14",),
            )


def _training(metrics: Metrics, where: list[tuple[int, str]]) -> Finding:
    bad = {step for step, _ in where}
    last = [row["step"] for row in metrics.rows[-_PERSISTS:]]
    lost = len(last) == _PERSISTS and all(step in bad for step in last)
    onset = min(bad)
    if lost:
        for row in reversed(metrics.rows):
            if row["step"] not in bad:
                break
            onset = row["step"]
    keys = sorted({key for _, key in where})
    return Finding(
        kind=NonFinite.kind,
        pathology=NonFinite.pathology,
        severity=Severity.CRITICAL if lost else Severity.WARNING,
        confidence=0.99 if lost else 0.8,
        onset_step=onset,
        message=f"{', '.join(keys)} not finite in {len(bad)} steps"
        + (", and no longer recovers" if lost else ""),
        evidence=(Evidence(keys[0], (min(bad), max(bad)), float(len(bad)), 0.0),),
        confirm="the weights of the last checkpoint hold NaN",
        told_from=("P30", "P12"),
        kills=lost,
    )
