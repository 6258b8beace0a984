import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrainer.errors import ConfigError
from autotrainer.recipe.knobs import KNOBS, Scale
from autotrainer.recipe.recipe import Change, Fork, HookRef, Recipe, RewardRef, Stage


def value_of(name):
    knob = KNOBS[name]
    if knob.scale is Scale.CHOICE:
        return st.sampled_from(knob.choices)
    if knob.kind is int:
        return st.integers(int(knob.low), int(knob.high))
    return st.floats(knob.low, knob.high, allow_nan=False)


knobs = st.sets(st.sampled_from(sorted(KNOBS))).flatmap(
    lambda names: st.fixed_dictionaries({name: value_of(name) for name in sorted(names)})
)
forks = st.builds(Fork, optimizer=st.sampled_from(["keep", "reset"]), rewarmup_steps=st.integers(0, 20))
hooks = st.lists(
    st.builds(
        HookRef,
        st.just("loss"),
        st.sampled_from(["hooks/a.py:A", "hooks/b.py:B"]),
        st.dictionaries(st.sampled_from("xy"), st.integers(0, 3)),
    ),
    max_size=2,
).map(tuple)
stages = st.builds(
    Stage, st.just("grpo"), st.integers(1, 500), knobs, hooks, st.just((RewardRef("verifier"),)), forks
)
recipes = st.builds(
    Recipe,
    st.sampled_from(["tiny", "a/b"]),
    st.just("math"),
    st.lists(stages, min_size=1, max_size=3).map(tuple),
    st.integers(0, 2**31),
)


@given(recipes, recipes)
def test_the_difference_of_two_recipes_turns_one_into_the_other(one, other):
    assert one.replace(*one.diff(other)) == other
    assert one.diff(one) == ()


@given(recipes)
def test_a_recipe_survives_its_json_form(recipe):
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert again.digest == recipe.digest


@given(knobs, st.randoms())
def test_the_order_of_the_knobs_does_not_change_the_digest(values, random):
    shuffled = list(values.items())
    random.shuffle(shuffled)
    one = Recipe("tiny", "math", (Stage("grpo", 3, values),), 0)
    other = Recipe("tiny", "math", (Stage("grpo", 3, dict(shuffled)),), 0)
    assert one.digest == other.digest


@given(recipes, recipes)
def test_equal_digests_mean_equal_recipes(one, other):
    assert (one.digest == other.digest) == (one == other)


def test_a_knob_out_of_bounds_is_refused_with_what_is_allowed():
    with pytest.raises(
        ConfigError, match=r"temperature = 5 is not allowed: it must be a number from 0\.1 to 2"
    ):
        Stage("grpo", 3, {"temperature": 5})


def test_an_unknown_knob_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="unknown knob 'lr': known are beta"):
        Stage("grpo", 3, {"lr": 1e-4})


def test_true_is_not_a_number():
    with pytest.raises(ConfigError, match="num_generations = True"):
        Stage("grpo", 3, {"num_generations": True})


def test_a_stage_without_steps_is_refused():
    with pytest.raises(ConfigError, match="steps = 0"):
        Stage("grpo", 0, {})


def test_a_change_of_an_unknown_key_is_refused():
    recipe = Recipe("tiny", "math", (Stage("grpo", 3, {}),), 0)
    with pytest.raises(ConfigError, match=r"unknown recipe key '0\.speed'"):
        recipe.replace(Change("0.speed", None, 3))
