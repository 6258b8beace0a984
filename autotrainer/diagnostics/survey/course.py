"""What goes wrong on the way: length, entropy, KL, hacking, critic, ratios, staleness, tools, gradients."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.survey.rule import first, found, head, shows_start, since, tail
from autotrainer.tree.finding import Finding, Severity

CLIPPED, ZERO, REWARD, KL = "completions/clipped_ratio", "frac_reward_zero_std", "reward", "kl"
ENTROPY, GRAD, LENGTH = "entropy", "grad_norm", "completions/mean_length"
MISMATCH, IS_RATIO = "sampling/sampling_logp_difference/mean", "sampling/importance_sampling_ratio/mean"


def gradient(metrics: Metrics) -> Iterable[Finding]:
    """P28: a signal is there, and neither gradient nor policy moves."""
    norms, spread, kls = metrics.values(GRAD), metrics.values("reward_std"), metrics.values(KL)
    if not norms or max(norms) != 0.0 or not spread or fmean(spread) <= 0.01:
        return
    ties = tail(metrics, ZERO)
    if (ties is not None and ties >= 0.9) or (kls and max(kls) > 0.0):
        return
    yield found(
        "zero_gradient", "P28", metrics, GRAD, 0.0, 0.0,
        "the gradient is exactly 0"
        + (" and so is the kl" if kls else "")
        + f" although rewards differ within groups (reward_std {fmean(spread):.3g})",
        severity=Severity.CRITICAL, confidence=0.85 if kls else 0.6,
        confirm="a weight's norm before and after ten steps", told_from=("P01", "P13"),
    )  # fmt: skip


def mismatch(metrics: Metrics) -> Iterable[Finding]:
    """P15, P16, P17: the sampler's log-probs are not the trainer's."""
    values = metrics.values(MISMATCH)
    error = tail(metrics, "token_mult_prob_error")
    if error is not None and error > 1.05:
        yield found(
            "sampler_mismatch", "P15", metrics, "token_mult_prob_error", error, 1.05,
            f"token_mult_prob_error is {error:.3g}: sampler and trainer disagree", severity=Severity.CRITICAL,
            confidence=0.8, confirm="log-probs of both at step 0 with equal weights", told_from=("P16", "P17"),
        )  # fmt: skip
    if values:
        early, late = fmean(values[:3]), fmean(values[-5:])
        if late > 0.05 or (late > 0.02 and late > 2.5 * early and len(values) >= 5):
            steady = early > 0.05 and late < 2.0 * early
            pathology = "P16" if steady else "P15"
            yield found(
                "sampler_mismatch", pathology, metrics, MISMATCH, late, 0.05,
                f"sampler and trainer differ by {late:.3g} nats a token, {early:.3g} at the start",
                severity=Severity.WARNING, confidence=0.6 if len(values) < 5 else 0.7,
                confirm="the same at step 0 with equal weights; a run with lr 0", told_from=("P17", "P10", "P18"),
            )  # fmt: skip
    yield from _ratio(metrics)


def _ratio(metrics: Metrics) -> Iterable[Finding]:
    """P16 by the ratio itself; P23 by its spikes."""
    mean = metrics.values("ratio/mean")
    if mean and shows_start(metrics) and abs(mean[0] - 1.0) > 0.03:
        yield found(
            "ratio", "P16", metrics, "ratio/mean", mean[0], 1.0,
            f"the ratio is {mean[0]:.3g} at the first update, where it has to be 1", severity=Severity.CRITICAL,
            confidence=0.7, confirm="temperature 1, top_p 1, top_k 0 brings it to 0.99-1.01", told_from=("P15", "P21"),
        )  # fmt: skip
    peak = metrics.values("ratio/max")
    if peak and max(peak) > 10.0:
        yield found(
            "ratio_spike", "P23", metrics, "ratio/max", max(peak), 10.0,
            f"single ratios reach {max(peak):.3g}: too many updates a batch, or a broken row",
            confidence=0.7, confirm="the completion behind the largest ratio", told_from=("P15", "P16"),
        )  # fmt: skip
    losses = [abs(value) for value in metrics.values("loss")]
    if len(losses) >= 5 and max(losses) > 1e3 and max(losses) > 1e4 * max(median(losses), 1e-9):
        yield found(
            "ratio_spike", "P23", metrics, "loss", max(losses), 1e3,
            f"the loss spikes to {max(losses):.3g} in one step", confidence=0.65,
            confirm="the largest ratio of that step", told_from=("P14", "P16"),
        )  # fmt: skip


def critic(metrics: Metrics) -> Iterable[Finding]:
    """P20: the value head explains nothing."""
    variance = metrics.values("critic/vf_explained_var")
    losses = metrics.values("critic/vf_loss")
    broken = any(key.startswith(("critic/vf", "critic/vpred")) for _, key in metrics.nonfinite())
    if broken or (variance and variance[-1] < -1.0):
        value = variance[-1] if variance else 0.0
        yield found(
            "critic", "P20", metrics, "critic/vf_explained_var", value, 0.0,
            f"the critic explains nothing (explained variance {value:.3g}"
            + (", its loss is not finite)" if broken else ")"),
            severity=Severity.CRITICAL, confidence=0.85, confirm="explained variance above 0 after 20 steps",
            told_from=("P11", "P14"),
        )  # fmt: skip
    elif len(variance) >= 20 and fmean(variance[-10:]) < 0.0:
        yield found(
            "critic", "P20", metrics, "critic/vf_explained_var", fmean(variance[-10:]), 0.0,
            "after 20 steps the critic still explains less than a constant would", confidence=0.75,
            confirm="a warm-up of the critic alone", told_from=("P11",),
        )  # fmt: skip
    elif len(losses) >= 10 and fmean(losses[-5:]) > 1.0 and fmean(losses[-5:]) > 0.8 * fmean(losses[:5]):
        yield found(
            "critic", "P20", metrics, "critic/vf_loss", fmean(losses[-5:]), 1.0,
            f"the value loss stays at {fmean(losses[-5:]):.3g} and does not fall", confidence=0.6,
            confirm="explained variance", told_from=("P11",),
        )  # fmt: skip


def lengths(metrics: Metrics) -> Iterable[Finding]:
    """P05 and P06: completions grow into the cap, or shrink to nothing, without the reward following."""
    values = metrics.values(LENGTH)
    if len(values) < 8:
        return
    width = max(2, len(values) // 5)
    early, late = fmean(values[:width]), fmean(values[-width:])
    gain = _change(metrics, REWARD)
    clipped = tail(metrics, CLIPPED)
    if late > 1.6 * early and (gain is not None and gain <= 0.0) and (clipped is None or clipped > 0.3):
        yield found(
            "length", "P05", metrics, LENGTH, late, early,
            f"completions grow from {early:.0f} to {late:.0f} tokens while the reward does not rise",
            confidence=0.65, confirm="the tails of ten long completions", told_from=("P04", "P10"),
        )  # fmt: skip
    elif (
        late < 0.5 * early and gain is not None and gain < 0.05 * max(1.0, abs(head(metrics, REWARD) or 0.0))
    ):
        yield found(
            "length", "P06", metrics, LENGTH, late, early,
            f"completions shrink from {early:.0f} to {late:.0f} tokens while the reward does not rise",
            confidence=0.6, confirm="ten completions from the start and the end", told_from=("P30", "P03"),
        )  # fmt: skip


def hacking(metrics: Metrics) -> Iterable[Finding]:
    """P07: what is paid rises, what is not paid falls."""
    paid, unpaid = metrics.values(REWARD), metrics.values("probe/accuracy")
    if len(unpaid) < 2 or len(paid) < 2:
        return
    rise, fall = _change(metrics, REWARD) or 0.0, _change(metrics, "probe/accuracy") or 0.0
    best = max(unpaid)
    fell = best - unpaid[-1] > 0.15 * max(abs(best), 0.05) and fall < 0.0
    if fell and rise > 0.0:
        yield found(
            "reward_hacking", "P07", metrics, "probe/accuracy", unpaid[-1], best,
            f"the reward rises by {rise:.3g} while an unpaid score falls from {best:.3g} to {unpaid[-1]:.3g}",
            severity=Severity.CRITICAL, confidence=0.8, confirm="the best-paid completions, read", told_from=("P08", "P02"),
        )  # fmt: skip


def stale(metrics: Metrics) -> Iterable[Finding]:
    """P18: the sampler lags, and the policies part."""
    lag = tail(metrics, "staleness/mean")
    if lag is None or lag < 1.0:
        return
    apart = metrics.values(MISMATCH) or metrics.values(KL)
    if len(apart) >= 4 and fmean(apart[-2:]) > 3.0 * max(fmean(apart[:2]), 1e-6):
        yield found(
            "staleness", "P18", metrics, "staleness/mean", lag, 1.0,
            f"samples are {lag:.2g} updates old and the policies part more and more", confidence=0.7,
            confirm="the same run on-policy", told_from=("P15", "P17"),
        )  # fmt: skip


def tools(metrics: Metrics) -> Iterable[Finding]:
    """P25: tools are no longer called, or every call fails."""
    turns, calls, failures = (metrics.values(key) for key in ("turns/mean", "tools/calls", "tools/failures"))
    if len(calls) >= 3 and fmean(calls[:2]) > 0.2 and calls[-1] < 0.2 * fmean(calls[:2]):
        yield found(
            "tools", "P25", metrics, "tools/calls", calls[-1], calls[0],
            f"tool calls fall from {calls[0]:.2g} to {calls[-1]:.2g}", confidence=0.75,
            confirm="ten rollouts without a call", told_from=("P07",),
        )  # fmt: skip
    elif len(turns) >= 3 and turns[0] >= 2.5 and turns[-1] <= 2.05:
        yield found(
            "tools", "P25", metrics, "turns/mean", turns[-1], turns[0],
            f"turns fall from {turns[0]:.2g} to {turns[-1]:.2g}: the tool is no longer called", confidence=0.6,
            confirm="ten rollouts without a call", told_from=("P07", "P30"),
        )  # fmt: skip
    if failures and failures[-1] > 0.9:
        yield found(
            "tools", "P25", metrics, "tools/failures", failures[-1], 0.9,
            f"{failures[-1]:.0%} of the tool calls fail", severity=Severity.CRITICAL, confidence=0.75,
            confirm="one failing call replayed by hand", told_from=("P02",),
        )  # fmt: skip


def collapse(metrics: Metrics) -> Iterable[Finding]:
    """P09, P10, P11, P12 in logs too short or too bare for the trained thresholds."""
    yield from _entropy(metrics)
    kls = metrics.series(KL)
    values = [value for _, value in kls]
    gain = _change(metrics, REWARD)
    if len(values) >= 5:
        late = fmean(values[-3:])
        usual = median(values)
        if (
            late > 1.0
            and late > 10 * max(head(metrics, KL, 3) or 0.0, 1e-3)
            and (gain is None or gain <= 0.02)
        ):
            yield found(
                "drift", "P11", metrics, KL, late, 1.0,
                f"kl has grown to {late:.3g} (median {usual:.3g}) and the reward does not rise",
                severity=Severity.CRITICAL if late > 5 else Severity.WARNING, confidence=0.7,
                onset=since(metrics, KL, lambda value: value > 0.5 * late), confirm="text of the last step",
                told_from=("P10", "P12", "P15"),
            )  # fmt: skip
    rate = max(metrics.values("learning_rate"), default=0.0)
    died = metrics.values(REWARD)
    dead = abs(tail(metrics, GRAD) or 0.0) < 1e-6 and bool(metrics.values(GRAD))
    frozen = 0.0 <= (tail(metrics, ENTROPY) or 1.0) < 1e-4
    if len(died) >= 2 and dead and (rate >= 1e-3 or (frozen and metrics.last_step <= 60)):
        yield found(
            "collapse", "P12", metrics, "learning_rate", rate, 1e-3,
            f"learning rate {rate:g}, and within {metrics.last_step} steps no gradient is left: far too high", severity=Severity.CRITICAL, confidence=0.75,
            confirm="the same with a tenth of it", told_from=("P09",),
        )  # fmt: skip


def _entropy(metrics: Metrics) -> Iterable[Finding]:
    values = metrics.values(ENTROPY)
    if len(values) < 3:
        return
    start, end = fmean(values[:2]), fmean(values[-2:])
    gain = _change(metrics, REWARD)
    rewards = metrics.values(REWARD)
    poor = not rewards or rewards[-1] < 0.8 * max(1.0, max(rewards))
    if 0 <= end < 0.05 and start > 4 * max(end, 1e-9) and poor and (gain is None or gain <= 0.05):
        yield found(
            "entropy_collapse", "P09", metrics, ENTROPY, end, 0.05,
            f"entropy falls from {start:.3g} to {end:.2g} and the reward is stuck", confidence=0.75,
            onset=since(metrics, ENTROPY, lambda value: value < 0.05), confirm="completions of one prompt compared",
            told_from=("P12", "P30"),
        )  # fmt: skip
    elif end > 1.5 and end > 3 * max(start, 1e-3) and (gain is None or gain < 0.0):
        yield found(
            "drift", "P10", metrics, ENTROPY, end, 3 * start,
            f"entropy explodes from {start:.3g} to {end:.3g} and the reward falls", severity=Severity.CRITICAL,
            confidence=0.8, onset=since(metrics, ENTROPY, lambda value: value > 2 * start),
            confirm="text of the last step", told_from=("P15", "P11"),
        )  # fmt: skip


def peaked(metrics: Metrics) -> Iterable[Finding]:
    """P09 from step 0: the start policy is so sure that nothing is left to explore, and nothing moves."""
    entropy, rewards, ties = metrics.values(ENTROPY), metrics.values(REWARD), metrics.values(ZERO)
    if len(rewards) < 50 or not entropy or fmean(entropy[:20]) > 0.12 or fmean(entropy) > 0.12 or not ties:
        return
    width = len(rewards) // 3
    moved = abs(fmean(rewards[-width:]) - fmean(rewards[:width]))
    if fmean(ties) >= 0.4 and moved < 0.03:
        yield found(
            "entropy_collapse", "P09", metrics, ENTROPY, fmean(entropy), 0.12,
            f"the policy is peaked from the start (entropy {fmean(entropy):.2g}), {fmean(ties):.0%} of the groups tie, "
            "and the reward does not move", confidence=0.8, confirm="pass rates at a higher temperature",
            told_from=("P01", "P30"),
        )  # fmt: skip


def still(metrics: Metrics) -> Iterable[Finding]:
    """P13: long enough, and nothing moved."""
    kls, rewards = metrics.values(KL), metrics.values(REWARD)
    if len(rewards) < 5 or metrics.last_step < 40:
        return
    spread = max(rewards) - min(rewards)
    width = max(1, len(rewards) // 3)
    drift = abs(fmean(rewards[-width:]) - fmean(rewards[:width]))
    flat = drift < 0.35 * max(spread, 1e-9) or drift < 0.05 * max(abs(fmean(rewards)), 0.1)
    tied = (tail(metrics, ZERO) or 0.0) >= 0.9
    stillness = (max(kls) < 1e-3) if kls else (first(metrics, GRAD) is None and spread < 0.05)
    if flat and stillness and not tied and fmean(rewards) < 0.9 * max(1.0, max(rewards)):
        value = max(kls) if kls else drift
        yield found(
            "under_training", "P13", metrics, KL if kls else REWARD, value, 1e-3,
            f"after {metrics.last_step} steps "
            + (f"kl is at most {value:.2g}" if kls else "the reward has not moved")
            + " and the reward is flat: the updates are too small",
            confidence=0.7 if kls else 0.55, confirm="five times the learning rate", told_from=("P01", "P28", "P17"),
        )  # fmt: skip


def pushed_by_kl(metrics: Metrics) -> Iterable[Finding]:
    """P01 with a KL penalty: the reward is constant and only the penalty moves the weights."""
    rewards, kls = metrics.values(REWARD), metrics.values(KL)
    if len(rewards) >= 3 and max(rewards) - min(rewards) < 1e-9 and kls and max(kls) > 0.1:
        yield found(
            "zero_advantage", "P01", metrics, REWARD, rewards[-1], rewards[0],
            f"the reward is {rewards[0]:g} at every row while kl reaches {max(kls):.3g}: only the penalty moves the weights",
            severity=Severity.CRITICAL, confidence=0.8, confirm="groups with different rewards", told_from=("P02", "P11"),
        )  # fmt: skip


def _change(metrics: Metrics, key: str) -> float | None:
    """The last third's mean less the first third's; None with under two values."""
    values = metrics.values(key)
    if len(values) < 2:
        return None
    width = max(1, len(values) // 3)
    return fmean(values[-width:]) - fmean(values[:width])
