import dataclasses
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrainer.recipe.careful import careful_recipe
from autotrainer.recipe.compile import job_stages, trl_arguments
from autotrainer.recipe.knobs import KNOBS
from autotrainer.recipe.recipe import Fork, HookRef, Recipe, Stage


def stage(**knobs):
    return Stage("grpo", 10, {**careful_recipe("tiny", "math", 0, 10, 6, {}).stages[0].knobs, **knobs})


@given(st.integers(1, 256), st.integers(2, 64), st.sampled_from(["cpu", "cuda"]))
def test_micro_batch_times_accumulation_is_the_batch(prompts, group, device):
    arguments = trl_arguments(stage(prompts_per_step=prompts, num_generations=group), device)
    micro, accumulation = arguments["per_device_train_batch_size"], arguments["gradient_accumulation_steps"]
    assert micro * accumulation == prompts * group
    assert arguments["steps_per_generation"] == accumulation
    assert micro % group == 0 or group % micro == 0
    assert device == "cpu" or micro <= max(16, group)


def test_on_a_cpu_there_is_one_micro_batch_in_float32():
    arguments = trl_arguments(stage(), "cpu")
    assert arguments["per_device_train_batch_size"] == 64
    assert (arguments["gradient_accumulation_steps"], arguments["use_cpu"], arguments["bf16"]) == (
        1,
        True,
        False,
    )


def test_a_knob_that_is_not_set_is_left_to_trl():
    assert "epsilon_high" not in trl_arguments(stage(), "cpu")
    assert trl_arguments(stage(epsilon_high=0.28), "cpu")["epsilon_high"] == 0.28
    assert "prompts_per_step" not in trl_arguments(stage(), "cpu")


def test_a_stage_of_the_job_has_the_contracts_keys():
    recipe = Recipe(
        "tiny",
        "math",
        (
            stage(),
            dataclasses.replace(
                stage(learning_rate=3e-4),
                fork=Fork("reset", rewarmup_steps=10),
                hooks=(HookRef("loss", "hooks/a.py:A", {"x": 1}),),
            ),
        ),
        0,
    )
    first, second = job_stages(recipe, "cpu")
    assert set(first) == {"algorithm", "steps", "arguments", "hooks", "rewards", "fork"}
    assert second["hooks"] == [{"point": "loss", "ref": "hooks/a.py:A", "params": {"x": 1}}]
    assert second["fork"] == {
        "optimizer": "reset",
        "lr_horizon": "node",
        "rewarmup_steps": 10,
        "reference": "study_base",
        "sampler": "continue",
    }
    assert second["arguments"]["learning_rate"] == 3e-4
    assert first["rewards"] == [{"ref": "verifier", "weight": 1.0, "params": {}}]


@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed")
def test_every_argument_is_one_of_trls_own():
    roots = [Path(find_spec(name).submodule_search_locations[0]) for name in ("trl", "transformers")]
    sources = (
        roots[0] / "trainer/grpo_config.py",
        roots[0] / "trainer/base_config.py",
        roots[0] / "trainer/model_config.py",
        roots[1] / "training_args.py",
    )
    text = "\n".join(source.read_text() for source in sources)
    everything = {
        name: knob.choices[0]
        if knob.choices
        else knob.kind(max(knob.low, 1) if knob.low <= 1 <= knob.high else knob.high)
        for name, knob in KNOBS.items()
        if name not in ("num_generations", "prompts_per_step")
    }
    for argument in trl_arguments(stage(**everything), "cuda"):
        assert f"\n    {argument}:" in text, argument
