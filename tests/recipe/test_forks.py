from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrainer.recipe.careful import careful_recipe
from autotrainer.recipe.forks import fork_for
from autotrainer.recipe.knobs import KNOBS
from autotrainer.recipe.recipe import Fork, HookRef, RewardRef

OLD = careful_recipe("tiny", "math", 0, 60, 6, {}).stages[0]
OTHER = {
    "learning_rate": 2e-4,
    "beta": 0.1,
    "temperature": 0.9,
    "max_grad_norm": 0.3,
    "warmup_steps": 7,
    "num_generations": 16,
    "prompts_per_step": 16,
    "loss_type": "grpo",
    "scale_rewards": "none",
    "max_completion_length": 12,
}
changes = st.sets(st.sampled_from(sorted(OTHER))).map(lambda names: {name: OTHER[name] for name in names})


def changed(**knobs):
    return replace(OLD, knobs={**OLD.knobs, **knobs})


@given(changes)
def test_adam_restarts_exactly_where_learning_rate_batch_or_objective_change(knobs):
    fork = fork_for(OLD, changed(**knobs))
    restarts = any(KNOBS[name].restarts_adam for name in knobs)
    assert fork == (Fork("reset", rewarmup_steps=10) if restarts else Fork("keep", rewarmup_steps=0))


@given(changes)
def test_reference_and_sampler_go_on_whatever_changes(knobs):
    fork = fork_for(OLD, changed(**knobs))
    assert (fork.reference, fork.sampler, fork.lr_horizon) == ("study_base", "continue", "node")


def test_another_reward_or_objective_hook_restarts_adam():
    shaped = replace(OLD, rewards=(*OLD.rewards, RewardRef("rewards/length.py:penalty")))
    hooked = replace(OLD, hooks=(HookRef("loss", "hooks/a.py:A"),))
    assert fork_for(OLD, shaped).optimizer == "reset"
    assert fork_for(OLD, hooked).optimizer == "reset"


def test_another_sampler_hook_keeps_adam():
    assert fork_for(OLD, replace(OLD, hooks=(HookRef("sampler", "hooks/s.py:S"),))).optimizer == "keep"


@pytest.mark.parametrize(("steps", "warmup"), [(60, 10), (12, 6), (4, 2)])
def test_a_short_stage_warms_up_for_at_most_half_of_it(steps, warmup):
    assert fork_for(OLD, replace(changed(learning_rate=2e-4), steps=steps)).rewarmup_steps == warmup
