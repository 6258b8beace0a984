from autotrainer.diagnostics.collapse import Collapse
from autotrainer.diagnostics.triage import diagnose, first_kill
from autotrainer.testing.runs import collapsed, run
from autotrainer.tree.finding import Severity


def test_a_run_whose_reward_goes_to_zero_with_its_policy_is_killed_within_fifteen_steps():
    metrics = collapsed(onset=10)
    step, finding = first_kill(metrics, {}, 5)
    assert step <= 25
    assert (finding.kind, finding.pathology, finding.severity) == ("collapse", "P12", Severity.CRITICAL)
    assert finding.onset_step == 10


def test_a_hard_task_whose_reward_is_zero_from_the_start_is_no_collapse():
    metrics = run(reward=0.0, frac_reward_zero_std=1.0, grad_norm=0.0)
    assert not list(Collapse().check(metrics, {}))
    assert [finding.kind for finding in diagnose(metrics, {})] == ["zero_advantage"]


def test_a_task_with_one_lucky_batch_is_no_collapse():
    lucky = run(
        reward=lambda s: 0.2 if s == 2 else 0.0, frac_reward_zero_std=lambda s: 0.8 if s == 2 else 1.0
    )
    assert first_kill(lucky, {}, 5) is None


def test_a_run_that_passes_through_truncation_and_comes_back_is_not_killed():
    dip = run(
        reward=lambda s: 0.3 if 20 <= s < 35 else 0.6,
        completions__clipped_ratio=lambda s: 0.95 if 20 <= s < 35 else 0.02,
    )
    assert first_kill(dip, {}, 5) is None


def test_a_short_loss_that_recovers_is_not_killed():
    dip = run(
        reward=lambda s: 0.0 if 21 <= s < 24 else 0.6,
        frac_reward_zero_std=lambda s: 1.0 if 21 <= s < 24 else 0.1,
        completions__clipped_ratio=lambda s: 1.0 if 21 <= s < 24 else 0.02,
    )
    assert first_kill(dip, {}, 1) is None


def test_a_run_that_has_solved_its_task_is_not_killed():
    solved = run(
        reward=1.0,
        noise=0.0,
        frac_reward_zero_std=1.0,
        entropy=lambda s: 0.6 if s < 20 else 0.001,
        grad_norm=0.0,
    )
    assert first_kill(solved, {}, 5) is None


def test_a_policy_that_gives_one_constant_answer_is_killed_whatever_the_scale_of_the_reward():
    def after(healthy, lost):
        return lambda s: healthy if s < 15 else lost

    dead = run(
        noise=0.0,
        reward=after(-0.2, -0.3),
        frac_reward_zero_std=after(0.1, 1.0),
        entropy=after(0.8, 1e-6),
        completions__clipped_ratio=after(0.3, 1.0),
    )
    step, finding = first_kill(dead, {}, 5)
    assert step <= 25
    assert finding.evidence[0].metric == "frac_reward_zero_std"


def test_entropy_that_explodes_late_is_named_as_the_cause():
    late = run(
        120,
        reward=lambda s: 0.6 if s < 80 else 0.0,
        frac_reward_zero_std=lambda s: 0.1 if s < 80 else 1.0,
        entropy=lambda s: 0.2 if s < 78 else 5.0,
        completions__clipped_ratio=lambda s: 0.02 if s < 80 else 1.0,
    )
    _, finding = first_kill(late, {}, 5)
    assert (finding.pathology, finding.onset_step) == ("P10", 80)


def test_five_empty_rows_of_one_prompt_each_are_bad_luck_and_not_a_collapse():
    def poor(s):
        return 0.0 if 20 <= s < 27 else 0.3

    metrics = run(
        reward=poor,
        frac_reward_zero_std=lambda s: 1.0 if 20 <= s < 27 else 0.3,
        completions__clipped_ratio=lambda s: 1.0 if 20 <= s < 27 else 0.1,
    )
    assert first_kill(metrics, {"prompts_per_step": 1}, 5) is None
    assert first_kill(metrics, {"prompts_per_step": 8}, 5) is not None
