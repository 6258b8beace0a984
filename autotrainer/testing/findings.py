"""Public examples of findings, by kind, for tests of skills and planners."""

from __future__ import annotations

from autotrainer.tree.finding import Evidence, Finding, Severity


def example(
    kind: str,
    pathology: str,
    severity: Severity,
    onset: int,
    *evidence: tuple[str, float, float],
    kills: bool = False,
) -> Finding:
    """A finding with evidence given as (metric, value, threshold) over the steps 41 to 60."""
    return Finding(
        kind=kind,
        pathology=pathology,
        severity=severity,
        confidence=0.9,
        onset_step=onset,
        message=f"an example of {kind}",
        evidence=tuple(Evidence(metric, (41, 60), value, threshold) for metric, value, threshold in evidence),
        kills=kills,
    )


EXAMPLES: dict[str, tuple[Finding, ...]] = {
    "collapse": (
        example(
            "collapse",
            "P12",
            Severity.CRITICAL,
            8,
            ("reward", 0.0, 0.03),
            ("frac_reward_zero_std", 1.0, 0.9),
            kills=True,
        ),
        example(
            "collapse", "P10", Severity.CRITICAL, 45, ("reward", 0.0, 0.03), ("entropy", 5.0, 0.6), kills=True
        ),
    ),
    "zero_advantage": (
        example(
            "zero_advantage",
            "P01",
            Severity.CRITICAL,
            1,
            ("frac_reward_zero_std", 1.0, 0.9),
            ("reward", 0.0, 0.05),
        ),
        example(
            "zero_advantage",
            "P01",
            Severity.WARNING,
            20,
            ("frac_reward_zero_std", 0.95, 0.9),
            ("reward", 0.5, 0.9),
        ),
        example(
            "zero_advantage",
            "P08",
            Severity.WARNING,
            30,
            ("frac_reward_zero_std", 0.95, 0.9),
            ("reward", 0.97, 0.9),
        ),
    ),
    "truncation": (
        example("truncation", "P03", Severity.WARNING, 1, ("completions/clipped_ratio", 0.8, 0.3)),
        example("truncation", "P04", Severity.WARNING, 30, ("completions/clipped_ratio", 0.7, 0.5)),
        example("truncation", "P05", Severity.WARNING, 30, ("completions/clipped_ratio", 0.7, 0.5)),
    ),
    "under_training": (
        example("under_training", "P13", Severity.WARNING, 1, ("kl_start", 1e-5, 1e-3), ("reward", 0.2, 2.0)),
    ),
    "drift": (
        example("drift", "P10", Severity.CRITICAL, 25, ("entropy", 2.0, 0.6)),
        example("drift", "P11", Severity.WARNING, 40, ("kl_start", 2.0, 1.0), ("reward", 0.1, 2.0)),
    ),
    "entropy_collapse": (
        example(
            "entropy_collapse", "P09", Severity.WARNING, 30, ("entropy", 0.01, 0.05), ("reward", 0.4, 0.7)
        ),
    ),
    "reward_decline": (example("reward_decline", "P11", Severity.WARNING, 30, ("reward", 0.3, 0.4)),),
    "reward_hacking": (
        example("reward_hacking", "P07", Severity.CRITICAL, 30, ("probe/accuracy", 0.1, 0.3)),
    ),
    "nonfinite": (example("nonfinite", "P14", Severity.CRITICAL, 12, ("loss", 3.0, 0.0), kills=True),),
    "healthy": (
        example(
            "healthy",
            "P30",
            Severity.INFO,
            1,
            ("reward", 5.0, 2.0),
            ("kl_start", 0.01, 0.0),
            ("probe/accuracy", 0.5, 0.4),
        ),
        example(
            "healthy",
            "P30",
            Severity.INFO,
            1,
            ("reward", 0.1, 2.0),
            ("kl_start", 0.2, 0.0),
            ("probe/accuracy", 0.5, 0.4),
        ),
    ),
}
"""Every kind of the shipped diagnostics, each in the forms that skills have to tell apart."""
