import pytest

from autotrainer.library.loader import load_skills
from autotrainer.recipe.recipe import Recipe, Stage
from autotrainer.testing.findings import EXAMPLES
from autotrainer.tree.proposal import Edge

SKILLS = load_skills()


def propose(skill, findings, **knobs):
    recipe = Recipe("tiny", "math", (Stage("grpo", 60, knobs),), 0)
    assert SKILLS[skill].code.applies(recipe, findings)
    return SKILLS[skill].code.propose(recipe, findings)


def applies(skill, findings, **knobs):
    return SKILLS[skill].code.applies(Recipe("tiny", "math", (Stage("grpo", 60, knobs),), 0), findings)


def test_an_early_collapse_is_answered_from_the_base_with_a_tenth_of_the_learning_rate():
    early, late = EXAMPLES["collapse"]
    answer = propose("lr-backoff", (early,), learning_rate=1e-3)
    assert answer.knobs == {"learning_rate": 1e-4}
    assert (answer.edge, answer.from_base) == (Edge.RESTART, True)
    answer = propose("lr-backoff", (late,), learning_rate=1e-3)
    assert answer.knobs == {"learning_rate": 2e-4}
    assert (answer.edge, answer.before_onset, answer.from_base) == (Edge.REPAIR, True, False)


def test_the_learning_rate_of_a_run_that_never_moved_is_raised_and_the_more_the_stiller_it_is():
    (finding,) = EXAMPLES["under_training"]
    assert propose("lr-raise", (finding,), learning_rate=1e-6).knobs == {"learning_rate": pytest.approx(1e-5)}


def test_a_healthy_run_is_sped_up_while_it_rises_and_annealed_on_its_plateau():
    rising, flat = EXAMPLES["healthy"]
    assert propose("lr-raise", (rising,), learning_rate=1e-4).knobs == {"learning_rate": 2e-4}
    assert not applies("lr-raise", (flat,), learning_rate=1e-4)
    assert not applies("anneal-late", (rising,), learning_rate=1e-4)
    knobs = propose("anneal-late", (flat,), learning_rate=3e-4, prompts_per_step=8, temperature=1.2).knobs
    assert knobs == {"learning_rate": 1e-4, "prompts_per_step": 16, "temperature": 1.0}


def test_the_kl_anchor_starts_at_the_published_coefficient_and_then_doubles():
    findings = EXAMPLES["drift"][:1]
    assert propose("kl-anchor", findings, beta=0.0).knobs == {"beta": 0.04}
    assert propose("kl-anchor", findings, beta=0.1).knobs == {"beta": 0.2}


def test_the_clip_is_raised_only_where_a_ratio_can_reach_it():
    findings = EXAMPLES["entropy_collapse"]
    assert propose("dapo-clip-higher", findings, num_iterations=4).knobs == {"epsilon_high": 0.28}
    assert set(propose("dapo-clip-higher", findings, num_iterations=1).knobs) == {
        "entropy_coef",
        "temperature",
    }


def test_more_exploration_is_not_prescribed_where_nothing_is_solved():
    hard, even, solved = EXAMPLES["zero_advantage"]
    assert not applies("dapo-clip-higher", (hard,))
    assert applies("dapo-clip-higher", (even,))
    assert applies("dapo-clip-higher", (solved,))


def test_groups_double_at_an_equal_batch():
    knobs = propose(
        "larger-groups", EXAMPLES["zero_advantage"][:1], num_generations=8, prompts_per_step=8
    ).knobs
    assert knobs == {"num_generations": 16, "prompts_per_step": 4}
    assert not applies("larger-groups", EXAMPLES["zero_advantage"][:1], num_generations=8, prompts_per_step=3)
