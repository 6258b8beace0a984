"""What is wrong before anything was learnt: step 1 and the components of the reward."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.survey.rule import found, head, shows_start, tail
from autotrainer.tree.finding import Finding, Severity

CLIPPED, ZERO, REWARD, KL = "completions/clipped_ratio", "frac_reward_zero_std", "reward", "kl"


def reference(metrics: Metrics) -> Iterable[Finding]:
    """P27: a KL before the first update, which should be zero."""
    series = metrics.series(KL)
    if not series or series[0][0] > 2 or metrics.values("kl_start"):
        return  # a run of ours that forked starts away from its reference, rightly
    value = series[0][1]
    if value > 0.05:
        yield found(
            "reference", "P27", metrics, KL, value, 0.05,
            f"kl is {value:.3g} at step {series[0][0]}, before anything was learnt: the reference is another policy",
            severity=Severity.CRITICAL, confidence=0.75, confirm="kl at step 0 with equal weights is below 1e-3",
            told_from=("P11", "P16"),
        )  # fmt: skip


def truncated(metrics: Metrics) -> Iterable[Finding]:
    """P03 and P04: completions are cut from the first logged rows on."""
    start, end = head(metrics, CLIPPED), tail(metrics, CLIPPED)
    if start is None or end is None or start < 0.4 or end < 0.3:
        return
    ended = head(metrics, "completions/mean_terminated_length")
    endless = start >= 0.99 and ended is not None and ended == 0.0
    pathology = "P04" if endless else "P03"
    reading = "nothing ever ends" if endless else "the cap is below what an answer needs"
    rising = end - start > 0.25 and start < 0.7
    yield found(
        "truncation", "P04" if rising else pathology, metrics, CLIPPED, end, 0.3,
        f"{start:.0%} of the completions are cut at the first rows, {end:.0%} at the last: {reading}",
        severity=Severity.CRITICAL if end >= 0.8 else Severity.WARNING, confidence=0.8 if end > 0.5 else 0.6,
        confirm="the last tokens of ten cut completions", told_from=("P04", "P02"),
    )  # fmt: skip


def capped(metrics: Metrics) -> Iterable[Finding]:
    """P03 without a truncation metric: the mean length sits at the longest from the start."""
    if metrics.values(CLIPPED):
        return
    lengths, longest = metrics.values("completions/mean_length"), metrics.values("completions/max_length")
    top = max(lengths, default=0.0)
    at_cap = (
        len(lengths) >= 10 and top >= 32 and top == int(top) and sum(value == top for value in lengths) >= 3
    )
    if at_cap and lengths[0] >= 0.97 * top and fmean(lengths[-10:]) > 0.75 * top:
        yield found(
            "truncation", "P03", metrics, "completions/mean_length", fmean(lengths[-10:]), top,
            f"the mean length is often {top:.0f}, exactly the longest, from the first step on: the cap cuts",
            confidence=0.7, confirm="log the share of cut completions", told_from=("P04",),
        )  # fmt: skip
        return
    if len(lengths) >= 3 and fmean(lengths) > 20 and max(lengths) - min(lengths) < 0.01 * max(lengths):
        yield found(
            "truncation", "P03", metrics, "completions/mean_length", lengths[-1], lengths[0],
            f"the mean length is {lengths[-1]:.0f} at every row: every completion runs into the cap",
            confidence=0.7, confirm="log the share of cut completions", told_from=("P04",),
        )  # fmt: skip
    elif longest and lengths and lengths[-1] > 0.97 * max(longest) and max(longest) > 20:
        yield found(
            "truncation", "P03", metrics, "completions/mean_length", lengths[-1], max(longest),
            f"the mean length {lengths[-1]:.0f} is the longest: nearly all run into the cap",
            confidence=0.5, confirm="log the share of cut completions", told_from=("P04",),
        )  # fmt: skip


def components(metrics: Metrics) -> Iterable[Finding]:
    """P02 and P08: parts of the reward that never move while others do."""
    parts = {key: metrics.values(key) for key in _parts(metrics)}
    moving = [key for key, values in parts.items() if max(values) - min(values) > 1e-9]
    spread = metrics.values("reward_std")
    alive = bool(moving) or (bool(spread) and max(spread) > 0)
    for key, values in parts.items():
        name = key.removeprefix("rewards/").removesuffix("/mean")
        if max(values) - min(values) > 1e-9 or not (alive and len(values) >= 2):
            continue
        if len(values) < 5 and values[0] not in (-1.0, 0.0, 0.5, 1.0):
            continue  # two equal means of a small batch are chance
        odd = values[0] not in (0.0, 1.0) or "accuracy" in name or "correct" in name
        dead = values[0] == 0.0
        state = "always 0: it never pays" if dead else f"exactly {values[0]:g} at every row"
        yield found(
            "reward_component", "P02" if odd and len(values) >= 2 and not dead else "P08", metrics, key, values[-1],
            values[0], f"reward part {name} is {state} while others move",
            severity=Severity.WARNING if odd and not dead else Severity.INFO,
            confidence=0.75 if odd and not dead else 0.6,
            confirm="the reward on gold answers, shuffled answers and hand-made strings", told_from=("P01", "P07"),
        )  # fmt: skip


def unpaid(metrics: Metrics) -> Iterable[Finding]:
    """P08: an easy part rises while the task's part falls and the total goes up."""
    parts = _parts(metrics)
    task = [key for key in parts if any(word in key for word in ("accuracy", "correct", "ndcg", "task"))]
    easy = [
        key for key in parts if any(word in key for word in ("format", "style", "length", "think", "bonus"))
    ]
    for one in task:
        values = metrics.values(one)
        if len(values) < 3:
            continue
        width = max(1, len(values) // 3)
        fell = fmean(values[:width]) - fmean(values[-width:])
        rose = [key for key in easy if _rise(metrics, key) > 0.05]
        if fell > 0.3 * max(abs(fmean(values[:width])), 0.05) and rose:
            yield found(
                "reward_component", "P08", metrics, one, values[-1], values[0],
                f"{rose[0].removeprefix('rewards/')} rises while {one.removeprefix('rewards/')} falls: the easy part dominates",
                severity=Severity.CRITICAL, confidence=0.8, confirm="an evaluation that only the task's part decides",
                told_from=("P07", "P02"),
            )  # fmt: skip


def silent(metrics: Metrics) -> Iterable[Finding]:
    """P01 and P02: no reward differs within a group, or none is ever given."""
    zero, level, spread = tail(metrics, ZERO), tail(metrics, REWARD), metrics.values("reward_std")
    start = head(metrics, ZERO)
    rewards = metrics.values(REWARD)
    tied = zero is not None and zero >= 0.95 and start is not None and start >= 0.9
    flat = bool(spread) and max(spread) == 0.0
    cut = (tail(metrics, CLIPPED) or 0.0) >= 0.4
    if tied or (flat and zero is None):
        part = any(
            max(metrics.values(key)) > 0.5
            for key in metrics_keys(metrics)
            if key.startswith("rewards/") and key.endswith("/std")
        )
        why = " (the deviation of single rewards is over the batch, not within groups)" if part else ""
        yield found(
            "zero_advantage", "P01", metrics, ZERO if tied else "reward_std", zero if tied and zero is not None else 0.0, 0.9,
            f"the completions of every prompt get one reward each: no advantage, no gradient{why}",
            severity=Severity.CRITICAL if _stuck(rewards) else Severity.WARNING, confidence=0.8,
            confirm="20 completions read by group", told_from=("P02", "P03", "P28", "P08"),
        )  # fmt: skip
    elif (
        len(set(rewards)) == 1
        and rewards
        and rewards[0] == 0.0
        and not cut
        and level is not None
        and zero is None
    ):
        yield found(
            "reward_bug", "P02", metrics, REWARD, 0.0, 0.0,
            "the reward is exactly 0 although completions end by themselves: the verifier may accept nothing",
            severity=Severity.CRITICAL, confidence=0.65, confirm="gold answers through the very same reward function",
            told_from=("P01", "P03"),
        )  # fmt: skip
    elif zero is not None and zero >= 0.6 and level is not None and abs(level) < 0.1 and not _solved(rewards):
        yield found(
            "zero_advantage", "P01", metrics, ZERO, zero, 0.6,
            f"{zero:.0%} of the groups have one reward each and the reward is {level:.3g}: too hard for the policy",
            confidence=0.6, confirm="pass rates of 100 prompts with 64 draws", told_from=("P02", "P03"),
        )  # fmt: skip


def _solved(rewards: list[float]) -> bool:
    return bool(rewards) and rewards[-1] > 0.8


def _stuck(rewards: list[float]) -> bool:
    return len(rewards) < 3 or max(rewards) - min(rewards) < 1e-6


def _rise(metrics: Metrics, key: str) -> float:
    values = metrics.values(key)
    width = max(1, len(values) // 3)
    return fmean(values[-width:]) - fmean(values[:width]) if len(values) >= 3 else 0.0


def _parts(metrics: Metrics) -> list[str]:
    """The components of the reward: `rewards/NAME/mean` or, in older logs, `rewards/NAME`."""
    keys = metrics_keys(metrics)
    own = [
        key
        for key in sorted(keys)
        if key.startswith("rewards/") and not key.endswith(("/std", "/min", "/max")) and metrics.values(key)
    ]
    return [key for key in own if key != "rewards/mean"] if len(own) > 1 or "rewards/mean" not in own else []


def metrics_keys(metrics: Metrics) -> set[str]:
    """Every key that some row has."""
    return {key for row in metrics.rows for key in row}


def at_start(metrics: Metrics) -> bool:
    """Whether rules about the first step may speak."""
    return shows_start(metrics)
