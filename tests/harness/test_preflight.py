"""Recipes that cannot work fail before step 1, with the field, the value and the rule."""

import shutil

import pytest

from tests.harness.conftest import TINY

WHERE = "stages[0].arguments."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"num_generations": 5},
            "per_device_train_batch_size x steps_per_generation = 32 x 1 = 32 must be a multiple of "
            "num_generations = 5",
        ),
        ({"num_generations": 1}, "num_generations = 1 must be a whole number of at least 2"),
        (
            {"gradient_accumulation_steps": 2, "steps_per_generation": 3},
            "steps_per_generation = 3 must be a multiple of gradient_accumulation_steps = 2",
        ),
        (
            {"max_completion_length": 1},
            "max_completion_length = 1 is below 2, the tokens of the shortest right",
        ),
        ({"loss_type": "ppo"}, "loss_type = 'ppo' must be one of grpo, bnpo, dr_grpo"),
        ({"loss_type": "luspo"}, "importance_sampling_level = 'token' does not fit loss_type = 'luspo'"),
        (
            {"loss_type": "vespo", "importance_sampling_level": "sequence"},
            "importance_sampling_level = 'sequence' does not fit loss_type = 'vespo'",
        ),
        ({"beta": -0.1}, "beta = -0.1 must be a finite number of at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate = nan must be a finite number of at least 0"),
        ({"temperature": 0.0}, "temperature = 0.0 must be a finite number above 0"),
        ({"top_p": 1.5}, "top_p = 1.5 must be above 0 and at most 1"),
        ({"delta": 1.1}, "delta = 1.1 must be above 1 + epsilon_high = 1.2"),
        ({"scale_rewards": "all"}, "scale_rewards = 'all' must be one of group, batch, none"),
        ({"max_prompt_length": -3}, "max_prompt_length = -3 must be a whole number of at least 1"),
        ({"per_device_train_batch_size": 0}, "per_device_train_batch_size = 0 must be a whole number"),
    ],
)
def test_a_wrong_recipe_fails_with_field_value_and_rule(run, arguments, message):
    done = run(arguments=arguments, steps=1)
    assert done.result["status"] == "failed"
    assert done.result["failure"]["type"] == "ContractError"
    assert WHERE + message in done.result["reason"]
    assert done.rows == []


def test_a_penalty_towards_a_reference_that_is_no_model_is_refused(run, straight, tmp_path):
    start = {"mode": "weights", "node": "n001", "step": 8, "path": str(straight.checkpoint(8))}
    fork = {"reference": str(tmp_path)}
    done = run(arguments={"beta": 0.05}, steps=1, job={"start": start}, fork=fork)
    assert (
        f"{WHERE}beta = 0.05 needs a reference, and {tmp_path} is no folder of a model"
        in done.result["reason"]
    )
    without = run(steps=1, job={"start": start}, fork=fork)
    assert without.result["status"] == "completed"


def test_a_study_model_without_a_folder_is_refused(run, tmp_path):
    shutil.copytree(TINY, tmp_path / "model")
    (tmp_path / "model" / "config.json").unlink()
    job = {"model": {"name": "x", "path": str(tmp_path / "model"), "dtype": "float32"}}
    done = run(arguments={"beta": 0.05}, steps=1, job=job)
    assert done.result["status"] == "failed"
    assert done.rows == []
