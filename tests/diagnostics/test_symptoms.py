import math

import pytest

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.drift import Drift
from autotrainer.diagnostics.entropy_collapse import EntropyCollapse
from autotrainer.diagnostics.healthy import Healthy
from autotrainer.diagnostics.nonfinite import NonFinite
from autotrainer.diagnostics.reward_decline import RewardDecline
from autotrainer.diagnostics.reward_hacking import RewardHacking
from autotrainer.diagnostics.truncation import Truncation
from autotrainer.diagnostics.under_training import UnderTraining
from autotrainer.diagnostics.zero_advantage import ZeroAdvantage
from autotrainer.testing.runs import run
from autotrainer.tree.finding import Severity


def found(diagnostic, metrics, **context):
    return list(diagnostic.check(metrics, context))


@pytest.mark.parametrize(
    ("reward", "pathology", "reading"),
    [(0.0, "P01", "too hard"), (0.97, "P08", "used up"), (0.5, "P01", "no diversity")],
)
def test_groups_that_tie_are_read_with_the_level_of_the_reward(reward, pathology, reading):
    (finding,) = found(ZeroAdvantage(), run(reward=reward, noise=0.01, frac_reward_zero_std=0.95))
    assert finding.pathology == pathology
    assert reading in finding.message


def test_the_share_of_ties_of_an_ordinary_run_on_an_easy_task_is_no_finding():
    assert not found(ZeroAdvantage(), run(reward=0.9, frac_reward_zero_std=lambda s: 1.0 if s % 2 else 0.7))


def test_with_rewards_scaled_by_the_batch_ties_are_read_from_the_groups():
    metrics = run(frac_reward_zero_std=0.0, groups__mixed=0.03)
    assert found(ZeroAdvantage(), metrics, scale_rewards="batch")
    assert not found(ZeroAdvantage(), metrics)


def test_a_run_that_stays_where_it_started_is_under_trained():
    still = run(reward=0.35, noise=0.05, kl_start=lambda s: 1e-6 * s)
    (finding,) = found(UnderTraining(), still, learning_rate=1e-6)
    assert finding.evidence[0].metric == "kl_start"
    assert "1e-06" in finding.message


@pytest.mark.parametrize(
    "metrics",
    [
        run(reward=0.35, noise=0.05, kl_start=lambda s: 1e-3 * s),
        run(kl_start=lambda s: 1e-6 * s),
        run(reward=0.35, noise=0.05, kl_start=0.0, grad_norm=0.0),
        run(reward=0.0, frac_reward_zero_std=1.0, kl_start=0.0),
        run(20, reward=0.35, kl_start=0.0),
        run(reward=0.35, noise=0.05),
    ],
    ids=["kl grows", "reward rises", "no gradient at all", "no signal", "too early", "no kl logged"],
)
def test_a_look_alike_is_not_called_under_trained(metrics):
    assert not found(UnderTraining(), metrics)


def test_a_cap_below_what_answers_need_is_seen_from_the_first_step():
    (finding,) = found(Truncation(), run(completions__clipped_ratio=0.8), max_completion_length=4)
    assert (finding.pathology, finding.onset_step) == ("P03", 1)
    assert "at 4 tokens" in finding.message


def test_completions_that_stop_ending_are_told_from_a_small_cap():
    (finding,) = found(Truncation(), run(completions__clipped_ratio=lambda s: 0.0 if s < 30 else 0.9))
    assert (finding.pathology, finding.onset_step) == ("P04", 30)


def test_completions_that_repeat_themselves_to_the_cap_are_a_loop():
    looping = run(
        completions__clipped_ratio=lambda s: 0.0 if s < 30 else 0.9,
        text__repetition=lambda s: 0.1 if s < 30 else 0.8,
    )
    assert found(Truncation(), looping)[0].pathology == "P05"


@pytest.mark.parametrize(
    "share",
    [lambda s: 0.9 - 0.01 * s, lambda s: 0.9 if 20 <= s < 35 else 0.0],
    ids=["falls", "passes through"],
)
def test_truncation_that_a_run_leaves_behind_is_no_finding(share):
    assert not found(Truncation(), run(completions__clipped_ratio=share))


def test_entropy_that_explodes_with_the_reward_is_critical():
    (finding,) = found(
        Drift(), run(entropy=lambda s: 0.3 if s < 40 else 3.0, reward=lambda s: 0.6 if s < 42 else 0.05)
    )
    assert (finding.pathology, finding.severity, finding.onset_step) == ("P10", Severity.CRITICAL, 40)


def test_one_spike_of_entropy_and_a_kl_that_pays_are_no_drift():
    assert not found(Drift(), run(entropy=lambda s: 5.0 if s == 30 else 0.3))
    assert not found(Drift(), run(kl=lambda s: 0.03 * s))


def test_a_kl_that_runs_away_without_a_gain_is_drift():
    (finding,) = found(Drift(), run(reward=0.4, noise=0.05, kl=lambda s: 0.05 * s))
    assert (finding.pathology, finding.onset_step) == ("P11", 20)


def test_a_policy_that_is_certain_and_poor_has_collapsed_in_entropy():
    certain = run(reward=0.3, noise=0.01, entropy=lambda s: 0.6 if s < 20 else 0.01, frac_reward_zero_std=0.8)
    (finding,) = found(EntropyCollapse(), certain)
    assert (finding.pathology, finding.onset_step, finding.kills) == ("P09", 20, False)


@pytest.mark.parametrize(
    "keys",
    [{"reward": 0.9}, {"frac_reward_zero_std": 0.2}, {"reward": lambda s: 0.01 * s}],
    ids=["good", "groups differ", "still rises"],
)
def test_low_entropy_alone_is_no_fault(keys):
    certain = {"reward": 0.3, "entropy": 0.01, "frac_reward_zero_std": 0.8, **keys}
    assert not found(EntropyCollapse(), run(noise=0.01, **certain))


def test_a_reward_that_falls_below_its_start_is_a_critical_decline():
    (finding,) = found(RewardDecline(), run(120, reward=lambda s: 0.5 if s < 40 else 0.5 - 0.004 * (s - 40)))
    assert finding.severity is Severity.CRITICAL
    assert 20 <= finding.onset_step <= 60


def test_noise_around_a_level_is_hardly_ever_called_a_decline():
    alarms = sum(
        bool(found(RewardDecline(), run(100, reward=0.4, noise=0.15, seed=seed))) for seed in range(200)
    )
    assert alarms <= 2


def test_a_reward_that_rises_while_the_probe_falls_is_exploited():
    probe = {"probe__accuracy": lambda s: 0.45 - 0.005 * s}
    (finding,) = found(RewardHacking(), run(**probe))
    assert finding.pathology == "P07"
    assert not found(RewardHacking(), run(probe__accuracy=lambda s: 0.35 + 0.004 * s))
    assert not found(RewardHacking(), run())


def test_values_that_stay_non_finite_kill_and_one_that_does_not_warns():
    (lost,) = found(NonFinite(), run(loss=lambda s: math.nan if s >= 50 else 0.1))
    assert (lost.kills, lost.onset_step) == (True, 50)
    (once,) = found(NonFinite(), run(grad_norm=lambda s: math.inf if s == 50 else 0.1))
    assert (once.kills, once.severity) == (False, Severity.WARNING)


def test_a_nan_in_an_averaged_metric_alone_is_an_artefact():
    (finding,) = found(NonFinite(), run(clip_ratio__low_mean=lambda s: math.nan if s > 5 else 0.0))
    assert (finding.pathology, finding.severity) == ("P30", Severity.INFO)


def test_the_recorders_own_count_is_believed_where_the_trainer_hides_a_nan():
    (finding,) = found(NonFinite(), run(nonfinite=lambda s: 3.0 if s >= 55 else 0.0))
    assert finding.kills


def test_a_healthy_run_says_whether_it_still_rises():
    (rising,), (flat,) = found(Healthy(), run()), found(Healthy(), run(reward=0.6, noise=0.05))
    assert rising.evidence[0].value > rising.evidence[0].threshold
    assert flat.evidence[0].value < flat.evidence[0].threshold


def test_no_rows_are_no_finding():
    for diagnostic in (
        ZeroAdvantage(),
        UnderTraining(),
        Truncation(),
        Drift(),
        EntropyCollapse(),
        RewardDecline(),
        Healthy(),
    ):
        assert not found(diagnostic, Metrics(()))
