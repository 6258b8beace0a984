import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.registry import kinds, shipped
from autotrainer.diagnostics.triage import diagnose, first_kill
from autotrainer.testing.findings import EXAMPLES
from autotrainer.testing.runs import collapsed, run
from autotrainer.tree.finding import Finding, Severity


def test_a_run_with_nothing_wrong_is_healthy_and_nothing_else():
    (finding,) = diagnose(run(), {})
    assert (finding.kind, finding.severity) == ("healthy", Severity.INFO)


def test_the_consequences_of_a_collapse_are_not_reported_beside_it():
    (finding,) = diagnose(collapsed(onset=10), {})
    assert finding.kind == "collapse"
    assert "P01" in finding.told_from


def test_truncation_from_the_start_explains_groups_without_reward():
    metrics = run(reward=0.0, frac_reward_zero_std=1.0, completions__clipped_ratio=1.0)
    assert [finding.kind for finding in diagnose(metrics, {})] == ["truncation"]


def test_two_faults_that_do_not_explain_each_other_are_both_reported():
    metrics = run(reward=0.4, noise=0.03, kl_start=1e-6, completions__clipped_ratio=0.6)
    assert [finding.kind for finding in diagnose(metrics, {})] == ["truncation", "under_training"]


def test_diagnosing_twice_gives_equal_findings_that_survive_json():
    metrics = collapsed()
    first = diagnose(metrics, {"learning_rate": 1e-3})
    assert diagnose(metrics, {"learning_rate": 1e-3}) == first
    assert tuple(Finding.from_json(finding.to_json()) for finding in first) == first


@pytest.mark.parametrize("onset", [6, 10, 23, 41])
def test_when_a_kill_is_decided_does_not_depend_on_when_one_looks(onset):
    metrics = collapsed(onset=onset)
    whole = first_kill(metrics, {}, 5)
    looked = next(
        killed
        for last in range(1, 61)
        if (killed := first_kill(metrics.until(last), {}, 5, after=last // 7)) is not None
    )
    assert whole == looked
    assert whole[0] % 5 == 0


def test_a_killed_runs_findings_name_the_reason():
    metrics = collapsed(onset=12)
    step, finding = first_kill(metrics, {}, 5)
    assert finding.kind in {found.kind for found in diagnose(metrics.until(step), {}) if found.kills}


def test_kill_rules_refuse_a_step_of_zero():
    with pytest.raises(ValueError, match="every = 0"):
        first_kill(run(), {}, 0)


def test_every_kind_has_an_example_and_every_diagnostic_a_name_of_its_own():
    assert set(EXAMPLES) == kinds()
    assert len(kinds()) == len(shipped())


values = st.one_of(st.floats(-2, 2), st.just(float("nan")), st.just(float("inf")), st.just(0.0), st.none())
rows = st.lists(
    st.fixed_dictionaries(
        dict.fromkeys(
            (
                "reward",
                "frac_reward_zero_std",
                "entropy",
                "completions/clipped_ratio",
                "grad_norm",
                "kl",
                "loss",
            ),
            values,
        )
    ),
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(rows)
def test_any_metrics_are_diagnosed_without_an_error(drawn):
    metrics = Metrics({"step": index, **row} for index, row in enumerate(drawn, start=1))
    findings = diagnose(metrics, {})
    killed = first_kill(metrics, {}, 1)
    for finding in findings:
        assert 0 < finding.confidence <= 1
        assert Finding.from_json(finding.to_json()) == finding
    if killed is not None:
        assert any(finding.kills for finding in diagnose(metrics.until(killed[0]), {}))
