import pytest

from autotrainer.errors import ConfigError
from autotrainer.recipe.careful import careful_recipe, default_steps


def test_the_tiny_model_has_its_own_learning_rate_and_batch():
    knobs = careful_recipe("tiny", "math", 0, 60, 6, {}).stages[0].knobs
    assert (knobs["learning_rate"], knobs["prompts_per_step"], knobs["num_generations"]) == (1e-4, 8, 8)
    assert (knobs["beta"], knobs["loss_type"], knobs["lr_scheduler_type"]) == (0.0, "dapo", "constant")
    assert knobs["max_completion_length"] == 6


def test_a_model_from_the_hub_has_the_large_recipe():
    knobs = careful_recipe("Qwen/Qwen2.5-0.5B-Instruct", "math", 0, 200, 512, {}).stages[0].knobs
    assert (knobs["learning_rate"], knobs["prompts_per_step"], knobs["num_generations"]) == (1e-6, 64, 8)


def test_a_small_model_under_another_name_has_the_tiny_recipe():
    knobs = careful_recipe("/models/mine", "math", 0, 60, 6, {}, parameters=1_000_000).stages[0].knobs
    assert knobs["learning_rate"] == 1e-4


def test_what_the_user_sets_wins():
    knobs = careful_recipe("tiny", "math", 0, 60, 6, {"learning_rate": 1e-3, "beta": 0.1}).stages[0].knobs
    assert (knobs["learning_rate"], knobs["beta"]) == (1e-3, 0.1)


def test_an_upper_clip_below_the_lower_one_is_refused():
    with pytest.raises(
        ConfigError, match=r"epsilon_high = 0\.1 is not allowed: it must be at least epsilon = 0\.2"
    ):
        careful_recipe("tiny", "math", 0, 60, 6, {"epsilon_high": 0.1})


def test_nodes_of_the_tiny_model_are_shorter():
    assert (default_steps("tiny"), default_steps("a/b")) == (60, 200)
