"""P30: what looks wrong and is not, with the reason; and numbers that are not finite."""

from __future__ import annotations

from collections.abc import Iterable

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.survey.rule import found, head, tail
from autotrainer.tree.finding import Finding, Severity

_VITAL = ("loss", "grad_norm", "reward")


def nonfinite(metrics: Metrics) -> Iterable[Finding]:
    """P14 where training itself is not finite, P30 where only an averaged metric is, P20 where the critic is."""
    where = metrics.nonfinite()
    if not where:
        return
    keys = {key for _, key in where}
    steps = sorted({step for step, _ in where})
    critic = {key for key in keys if key.startswith("critic/v")}
    vital = keys & set(_VITAL)
    if critic and not vital - {"grad_norm"}:
        return
    finite = [key for key in ("loss", "grad_norm") if metrics.values(key) and key not in keys]
    policy = {key for key in keys if key in ("kl", "entropy") or key.startswith("completions/")}
    late_grad = bool(metrics.values("grad_norm")) and "grad_norm" in finite
    if not vital and finite and (late_grad or not policy):
        yield found(
            "nonfinite", "P30", metrics, sorted(keys)[0], float(len(steps)), 0.0,
            f"{', '.join(sorted(keys)[:3])} not finite while {' and '.join(finite)} are: the metric's fault, not the run's",
            severity=Severity.INFO, confidence=0.75, onset=steps[0], confirm="loss and grad_norm stay finite",
            told_from=("P14",),
        )  # fmt: skip
        return
    last = metrics.rows[-1]["step"]
    passing = len(steps) <= 2 and last not in steps and len(metrics) > 10
    yield found(
        "nonfinite", "P14", metrics, sorted(vital or keys)[0], float(len(steps)), 0.0,
        f"{', '.join(sorted(vital or keys)[:4])} not finite from step {steps[0]} on",
        severity=Severity.WARNING if passing else Severity.CRITICAL,
        confidence=0.5 if passing else 0.9 if vital else 0.7, onset=steps[0],
        confirm="the weights of the last checkpoint hold NaN", told_from=("P30", "P12"),
        kills=bool(vital) and last in steps and len(steps) >= 3,
    )  # fmt: skip


def explained(metrics: Metrics) -> Iterable[Finding]:
    """P30: loss 0, clip ratio 0 or a large gradient norm in a run that is otherwise in order."""
    losses, norms, clips = (metrics.values(key) for key in ("loss", "grad_norm", "clip_ratio/region_mean"))
    spread = tail(metrics, "reward_std")
    moves = (bool(norms) and max(norms) > 1e-4) or (tail(metrics, "kl") or 0.0) > 1e-5
    if losses and max(abs(value) for value in losses) < 1e-3 and moves:
        yield found(
            "benign", "P30", metrics, "loss", losses[-1], 0.0,
            "a loss of 0 is the rule in GRPO: advantages are centred, the gradient is there",
            severity=Severity.INFO, confidence=0.7,
        )  # fmt: skip
    if clips and max(clips) == 0.0 and (spread is None or spread > 0) and moves:
        yield found(
            "benign", "P30", metrics, "clip_ratio/region_mean", 0.0, 0.0,
            "a clip ratio of 0 is right with one update a batch: the ratio is 1", severity=Severity.INFO, confidence=0.7,
        )  # fmt: skip
    if norms and max(norms) > 100 and (head(metrics, "reward") or 0.0) <= (tail(metrics, "reward") or 0.0):
        yield found(
            "benign", "P30", metrics, "grad_norm", max(norms), 100.0,
            f"a gradient norm of {max(norms):.4g} is logged before clipping", severity=Severity.INFO, confidence=0.5,
        )  # fmt: skip
