import numpy as np
import pytest
from scipy import stats

from autotrainer.search.gates import judge
from autotrainer.search.plan import JobCost, Plan
from autotrainer.search.statistics import seed_test
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.proposal import Edge, Purpose, Start

PLAN = Plan("tree", 2, 60, 2, 3, 3, 12, 1, 3, 16.6, 270.0, 28.0, 0.06, JobCost(7.0, 0.16, 3.0))


def studied(confirm, control, *, holdout=(0.6, 0.5), base=0.3, careful=(0.40, 0.42), finalist=0.55):
    """A study after its confirmation: dev of the confirmation and control seeds, holdout of both arms."""
    builder = TreeBuilder()
    builder.base(dev=base, holdout=base)
    builder.careful_seeds(*careful)
    best = builder.completed(builder.node(knobs={"beta": 0.01}), finalist)
    confirmed = [builder.completed(_run(builder, best), dev, holdout[0]) for dev in confirm]
    controls = [builder.completed(builder.node(purpose=Purpose.CONTROL), dev, holdout[1]) for dev in control]
    return builder, best, confirmed, controls


def _run(builder, best):
    return builder.node(
        purpose=Purpose.CONFIRM,
        edge=Edge.REPLICATE,
        parents=("n000", best),
        start=Start(),
        knobs={"beta": 0.01},
    )


def test_a_finalist_that_beats_the_controls_on_fresh_seeds_is_promoted_by_its_best_seed():
    builder, best, confirmed, _ = studied([0.60, 0.63, 0.61], [0.50, 0.49, 0.51])
    judgement = judge(builder.tree, PLAN)
    assert (judgement.arm, judgement.finalist, judgement.promote) == ("search", best, confirmed[1])
    assert judgement.rejected == {}
    assert judgement.reasons[0].startswith(f"search pays: {best} on 3 fresh seeds is +11.3 points")
    gain = judgement.figures["confirmed_gain"]
    assert gain["mean"] == pytest.approx(0.34 / 3)
    assert gain["low"] > 0
    assert gain["n"] == 3
    assert judgement.figures["search_time_gain"] == pytest.approx(0.55 - 0.50)


def test_a_gain_within_the_seeds_noise_sends_the_best_careful_run_home():
    builder, best, _, controls = studied([0.60, 0.50, 0.55], [0.50, 0.52, 0.51])
    judgement = judge(builder.tree, PLAN)
    assert (judgement.arm, judgement.finalist, judgement.promote) == ("careful", None, controls[1])
    assert "no gain is proven" in judgement.rejected[best]
    assert judgement.reasons[0].startswith(f"no gain of the search is claimed: {best}")


def test_a_significant_loss_is_no_gain():
    builder, best, _, _ = studied([0.40, 0.41, 0.42], [0.50, 0.49, 0.51])
    assert best in judge(builder.tree, PLAN).rejected


def test_a_gain_that_holdout_does_not_show_is_refused():
    builder, best, _, _ = studied([0.60, 0.63, 0.61], [0.50, 0.49, 0.51], holdout=(0.45, 0.5))
    judgement = judge(builder.tree, PLAN)
    assert judgement.arm == "careful"
    assert "holdout does not agree" in judgement.rejected[best]


def test_an_invalid_run_of_the_finalist_refuses_it_with_the_reason():
    builder, best, confirmed, _ = studied([0.60, 0.63, 0.61], [0.50, 0.49, 0.51])
    builder.emit("node_validity", node=confirmed[0], validity="invalid", reason="frozen files changed")
    judgement = judge(builder.tree, PLAN)
    assert judgement.arm == "careful"
    assert judgement.rejected[best] == f"{confirmed[0]} is invalid: frozen files changed"


def test_one_seed_confirms_nothing():
    builder, best, _, _ = studied([0.60], [0.50, 0.49, 0.51])
    judgement = judge(builder.tree, PLAN)
    assert judgement.arm == "careful"
    assert "1 confirmation and 3 control seeds were scored" in judgement.rejected[best]
    assert judgement.figures["confirmed_gain"] is None


def test_nothing_is_promoted_that_does_not_beat_the_base_model():
    builder, _, _, _ = studied(
        [0.31, 0.30, 0.32], [0.31, 0.30, 0.32], base=0.5, holdout=(0.31, 0.31), finalist=0.6
    )
    judgement = judge(builder.tree, PLAN)
    assert judgement.promote is None
    assert "nothing is promoted" in judgement.reasons[1]


def test_a_study_without_a_search_promotes_its_best_careful_seed():
    builder = TreeBuilder()
    builder.base(dev=0.3)
    seeds = builder.careful_seeds(0.5, 0.52)
    judgement = judge(builder.tree, PLAN)
    assert (judgement.arm, judgement.promote) == ("careful", seeds[1])
    assert judgement.reasons[0] == "no search was run: the careful recipe goes home"
    assert judgement.figures["gain_over_base_dev"]["low"] > 0


def test_a_search_that_was_cut_off_before_its_confirmation_claims_nothing():
    builder = TreeBuilder()
    builder.base(dev=0.3)
    seeds = builder.careful_seeds(0.5, 0.52)
    best = builder.completed(builder.node(knobs={"beta": 0.01}), 0.9)
    judgement = judge(builder.tree, PLAN)
    assert (judgement.arm, judgement.promote) == ("careful", seeds[1])
    assert "not confirmed: 0 confirmation" in judgement.rejected[best]


def test_a_study_in_which_nothing_was_scored_promotes_nothing():
    builder = TreeBuilder()
    builder.base()
    judgement = judge(builder.tree, PLAN)
    assert judgement.promote is None
    assert "nothing to promote" in judgement.reasons[1]


def test_of_two_finalists_each_needs_holms_level():
    """p of 0.03 passes alone and not as the better one of two whose seeds differ as much."""
    builder, best, _, _ = studied([0.551, 0.525, 0.571], [0.50, 0.49, 0.51])
    alone = judge(builder.tree, PLAN)
    assert 0.025 < alone.figures["confirmed_gain"]["p"] < 0.05
    assert alone.arm == "search"
    other = builder.completed(builder.node(knobs={"beta": 0.02}), 0.54)
    for dev in (0.497, 0.542, 0.474):
        builder.completed(_run(builder, other), dev, 0.6)
    both = judge(builder.tree, PLAN)
    assert both.arm == "careful"
    assert set(both.rejected) == {best, other}


def test_the_better_one_of_two_proven_finalists_wins():
    builder, best, _, _ = studied([0.60, 0.63, 0.61], [0.50, 0.49, 0.51])
    other = builder.completed(builder.node(knobs={"beta": 0.02}), 0.54)
    runs = [builder.completed(_run(builder, other), dev, 0.7) for dev in (0.70, 0.72, 0.71)]
    judgement = judge(builder.tree, PLAN)
    assert (judgement.finalist, judgement.promote) == (other, runs[1])
    assert judgement.rejected == {best: f"{other} is better"}


def test_the_seed_test_is_students_with_pooled_variance():
    one, two = [0.60, 0.63, 0.58, 0.61], [0.55, 0.52, 0.57]
    ours, reference = seed_test(one, two), stats.ttest_ind(one, two, equal_var=True)
    interval = reference.confidence_interval(0.95)
    assert ours.p == pytest.approx(reference.pvalue)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high))


def test_arms_without_any_spread_differ_surely_or_not_at_all():
    assert seed_test([0.5, 0.5], [0.4, 0.4]).p == 0.0
    assert seed_test([0.5, 0.5], [0.5, 0.5]).p == 1.0


def test_searches_without_an_effect_are_rarely_claimed():
    rng, claims = np.random.default_rng(1), 0
    for _ in range(2000):
        scores = rng.normal(0.5, 0.02, 6)
        test = seed_test(list(scores[:3]), list(scores[3:]))
        claims += test.p <= 0.05 and test.mean > 0
    assert claims / 2000 <= 0.05
