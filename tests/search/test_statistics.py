from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from autotrainer.search.statistics import (
    holm,
    holm_adjusted,
    paired_difference,
    paired_difference_of_seeds,
    provable_gain,
    seed_test,
)
from autotrainer.tree.score import Score

ITEMS = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=8, max_size=8)
P_VALUES = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), min_size=1)


def score(values, split="dev"):
    items = {f"i{place:04d}": float(value) for place, value in enumerate(values)}
    return Score.from_items(split, items, samples=4, seeds=(0,), greedy=0.0)


def sampled(rng, chances):
    """A score of four samples an item."""
    return score(rng.binomial(4, np.clip(chances, 0, 1)) / 4)


def test_the_paired_interval_is_the_one_of_scipys_bootstrap():
    rng = np.random.default_rng(0)
    one, two = rng.binomial(4, 0.6, 300) / 4, rng.binomial(4, 0.5, 300) / 4
    ours = paired_difference(score(one), score(two))
    reference = stats.bootstrap((one - two,), np.mean, method="percentile", rng=1).confidence_interval
    assert ours.mean == pytest.approx((one - two).mean())
    assert (ours.low, ours.high) == pytest.approx((reference.low, reference.high), abs=0.003)


def test_the_paired_interval_covers_the_true_difference_in_95_of_100_cases():
    rng, covered = np.random.default_rng(1), 0
    for _ in range(400):
        chances = rng.uniform(0.2, 0.7, 200)
        interval = paired_difference(sampled(rng, chances + 0.05), sampled(rng, chances))
        covered += interval.low <= 0.05 <= interval.high
    assert covered / 400 == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize(("one", "two"), [(3, 3), (3, 1), (2, 2)])
def test_the_interval_over_seeds_covers_the_true_difference_of_the_recipes(one, two):
    rng, covered = np.random.default_rng(2), 0
    for _ in range(200):
        chances = rng.uniform(0.2, 0.7, 200)
        arm = [sampled(rng, chances + 0.05 + rng.normal(0, 0.02)) for _ in range(one)]
        other = [sampled(rng, chances + (rng.normal(0, 0.02) if two > 1 else 0)) for _ in range(two)]
        interval = paired_difference_of_seeds(arm, other)
        covered += interval.low <= 0.05 <= interval.high
    assert covered / 200 >= 0.92


def test_seeds_that_agree_leave_the_spread_over_items_alone():
    rng = np.random.default_rng(3)
    one, two = sampled(rng, np.full(100, 0.6)), sampled(rng, np.full(100, 0.4))
    assert paired_difference_of_seeds([one, one], [two, two]) == paired_difference(one, two)


@settings(max_examples=30, deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=3), st.lists(ITEMS, min_size=1, max_size=3))
def test_swapping_the_arms_changes_the_sign_and_nothing_else(one, two):
    there = paired_difference_of_seeds([score(v) for v in one], [score(v) for v in two])
    back = paired_difference_of_seeds([score(v) for v in two], [score(v) for v in one])
    mirrored = (-back.mean, -back.high, -back.low)
    assert (there.mean, there.low, there.high) == pytest.approx(mirrored, abs=1e-12)
    assert there.low - 1e-12 <= there.mean <= there.high + 1e-12 or there.low == there.high


def test_a_checkpoint_never_beats_itself_and_always_one_that_is_wrong_everywhere():
    right, wrong = score([1.0] * 20), score([0.0] * 20)
    assert right.beats(wrong)
    assert not wrong.beats(right)
    assert not right.beats(right)


def test_only_common_items_of_one_split_are_compared():
    left, right, other = (
        Score.from_items("dev", items, samples=1, seeds=(0,), greedy=0.0)
        for items in ({"a": 1.0, "b": 0.0}, {"a": 0.0, "c": 1.0}, {"z": 1.0})
    )
    assert paired_difference(left, right).mean == 1.0
    with pytest.raises(ValueError, match="no item in common"):
        paired_difference(left, other)
    with pytest.raises(ValueError, match="different splits cannot be paired: dev, test"):
        paired_difference(score([1.0]), score([1.0], "test"))


@settings(max_examples=50, deadline=None)
@given(*(st.lists(st.floats(0, 1), min_size=2, max_size=6) for _ in range(2)))
def test_the_seed_test_is_scipys_where_there_is_spread(one, two):
    if min(np.std(one), np.std(two)) < 1e-3:
        return
    ours, reference = seed_test(one, two), stats.ttest_ind(one, two, equal_var=True)
    interval = reference.confidence_interval(0.95)
    assert ours.p == pytest.approx(reference.pvalue, rel=1e-6)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_recipes_that_are_alike_are_told_apart_in_5_of_100_confirmations(seeds):
    means = np.random.default_rng(seeds).normal(0.5, 0.02, (2000, 2, seeds))
    claimed = [seed_test(one, two).p <= 0.05 for one, two in means.tolist()]
    assert np.mean(claimed) == pytest.approx(0.05, abs=0.015)


def test_two_finalists_that_are_no_better_are_claimed_in_at_most_5_of_100_studies():
    means = np.random.default_rng(4).normal(0.5, 0.02, (2000, 3, 3))
    claimed = [
        any(holm({"a": seed_test(a, control).p, "b": seed_test(b, control).p}).values())
        for a, b, control in means.tolist()
    ]
    assert np.mean(claimed) <= 0.05 + 0.01


@given(P_VALUES)
def test_holm_keeps_the_order_of_the_p_values_and_lowers_none(p_values):
    adjusted = holm_adjusted(p_values)
    assert all(p_values[name] <= adjusted[name] <= 1 for name in p_values)
    for one, two in combinations(p_values, 2):
        assert (p_values[one] <= p_values[two]) <= (adjusted[one] <= adjusted[two])


@given(P_VALUES)
def test_holm_rejects_what_bonferroni_rejects_in_every_set_of_hypotheses_that_holds_it(p_values):
    rejected = holm(p_values)
    for name in p_values:
        others = [other for other in p_values if other != name]
        families = [(name, *some) for size in range(len(others) + 1) for some in combinations(others, size)]
        assert rejected[name] == all(len(f) * min(p_values[o] for o in f) <= 0.05 for f in families)


@pytest.mark.parametrize(("seeds", "arms", "tests"), [(2, 2, 1), (3, 2, 1), (3, 2, 2), (5, 1, 1)])
def test_a_gain_of_the_provable_size_is_found_in_80_of_100_studies(seeds, arms, tests):
    gain, rng = provable_gain(seeds, 0.01, arms=arms, tests=tests), np.random.default_rng(5)
    one = rng.normal(gain, 0.01, (20000, seeds))
    two = rng.normal(0.0, 0.01, (20000, seeds))
    test = stats.ttest_ind(one, two, axis=1) if arms == 2 else stats.ttest_1samp(one, 0.0, axis=1)
    assert (test.pvalue <= 0.05 / tests).mean() == pytest.approx(0.8, abs=0.01)


def test_the_provable_gain_grows_with_the_noise_floor_and_one_seed_proves_nothing():
    assert provable_gain(3, 0.02) == pytest.approx(2 * provable_gain(3, 0.01))
    assert provable_gain(3, 0.0) == 0.0
    assert provable_gain(1, 0.01) == 1.0
