import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from autotrainer.library.loader import load_skills
from harness.hooks.api import (
    GroupAdvantageHook,
    GroupInputs,
    LossInputs,
    RewardHook,
    RewardInputs,
    TokenAdvantageHook,
)

SKILLS = load_skills()


def hooks_of(skill):
    path = Path(SKILLS[skill].card.hook)
    spec = importlib.util.spec_from_file_location(f"hook_of_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def group_inputs(rewards, advantages):
    rewards = torch.tensor(rewards)
    return GroupInputs(
        step=1,
        advantages_P_G=torch.tensor(advantages),
        rewards_P_G=rewards,
        components_P_G={"accuracy": rewards},
        lengths_P_G=torch.full_like(rewards, 3.0),
        truncated_P_G=torch.zeros_like(rewards, dtype=torch.bool),
        prompt_ids_P=["a"] * len(rewards),
        max_completion_length=8,
    )


def loss_inputs(advantages, entropies, mask, group):
    entropies = torch.tensor(entropies, requires_grad=True)
    return LossInputs(
        step=1,
        logps_B_T=torch.zeros_like(entropies),
        old_logps_B_T=None,
        ref_logps_B_T=None,
        sampler_logps_B_T=None,
        entropies_B_T=entropies,
        advantages=torch.tensor(advantages),
        mask_B_T=torch.tensor(mask),
        group_B=torch.tensor(group),
        num_items_in_batch=torch.tensor(4.0),
        accumulation=1,
        steps_per_generation=1,
        processes=1,
        max_completion_length=8,
    )


def test_tied_groups_are_shaped_by_verdict_and_entropy_and_mixed_ones_are_bitwise_equal():
    hook = hooks_of("rl-zvp").ZeroVariance(scale=0.1)
    assert isinstance(hook, GroupAdvantageHook)
    assert isinstance(hook, TokenAdvantageHook)
    at_scoring = [[0.0, 0.0], [0.0, 0.0], [0.7, -0.7], [0.0, 0.0]]
    given = hook.group(group_inputs([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.5, 0.5]], at_scoring))
    assert torch.equal(given, torch.tensor(at_scoring))
    out = hook.tokens(
        loss_inputs([0.0, -0.7, 0.0, 0.0, 0.7], [[1.0, 2.0, 9.0]] * 5, [[1, 1, 0]] * 5, [0, 2, 1, 3, 2])
    )
    torch.testing.assert_close(out[0], torch.tensor([0.1, 0.2, 0.0]))
    torch.testing.assert_close(out[2], torch.tensor([-0.1, 0.0, 0.0]))
    assert torch.equal(out[[1, 3, 4]], torch.tensor([[-0.7] * 3, [0.0] * 3, [0.7] * 3]))
    assert not out.requires_grad


def test_a_tie_in_accuracy_that_another_component_breaks_is_not_shaped():
    hook = hooks_of("rl-zvp").ZeroVariance()
    inputs = group_inputs([[1.0, 1.0]], [[0.7, -0.7]])
    hook.group(replace(inputs, rewards_P_G=torch.tensor([[1.0, 0.5]])))
    out = hook.tokens(loss_inputs([0.7, -0.7], [[1.0]] * 2, [[1]] * 2, [0, 0]))
    assert torch.equal(out, torch.tensor([[0.7], [-0.7]]))


def test_the_trainers_own_checks_accept_the_shipped_hooks(monkeypatch):
    from harness.contract import HookSpec
    from harness.trainers.hooks import HookSet, RunFacts

    specs = []
    for skill, point, name, params in (
        ("rl-zvp", "advantages", "ZeroVariance", {"scale": 0.1}),
        ("overlong", "rewards", "SoftOverlong", {}),
    ):
        folder = Path(SKILLS[skill].card.folder).name
        monkeypatch.setitem(sys.modules, f"harness.hooks.{folder}", hooks_of(skill))
        specs.append(HookSpec(point, f"hooks/{folder}.py:{name}", params))
    facts = RunFacts(
        reference=False,
        sampler_logps=False,
        steps_per_generation=4,
        verifier="accuracy",
        components=("accuracy",),
    )
    hooks = HookSet(specs, facts)
    assert hooks.adds == {"overlong": 0.5}
    inputs = group_inputs([[0.0, 0.0]], [[0.0, 0.0]])
    assert torch.equal(hooks.group(inputs), inputs.advantages_P_G)
    shaped = hooks.tokens(loss_inputs([0.0, 0.0], [[0.5, 1.0]] * 2, [[1, 1]] * 2, [0, 0]))
    torch.testing.assert_close(shaped, torch.tensor([[-0.05, 0.0]] * 2))


def test_running_on_costs_nothing_before_the_margin_and_one_at_the_cap():
    hook = hooks_of("overlong").SoftOverlong(weight=0.5, margin=0.5)
    assert isinstance(hook, RewardHook)
    ids = [[0] * length for length in (1, 4, 6, 8)]
    inputs = RewardInputs(
        step=1,
        prompts_N=[[]] * 4,
        completions_N=[""] * 4,
        completion_ids_N=ids,
        prompt_ids_N=["a"] * 4,
        answers_N=[""] * 4,
        columns_N=[{}] * 4,
        components_N={"accuracy": torch.zeros(4)},
        group_size=4,
        max_completion_length=8,
    )
    assert hook.components(inputs)["overlong"].tolist() == [0.0, 0.0, -0.5, -1.0]
    assert hook.adds == {"overlong": 0.5}


@pytest.mark.parametrize(
    ("skill", "name", "params"),
    [("rl-zvp", "ZeroVariance", {"scale": 0}), ("overlong", "SoftOverlong", {"margin": 2})],
)
def test_a_hook_refuses_parameters_that_make_no_sense(skill, name, params):
    with pytest.raises(ValueError, match="is not allowed"):
        getattr(hooks_of(skill), name)(**params)


def test_truncation_from_the_start_gets_room_and_later_truncation_gets_a_price():
    from autotrainer.recipe.recipe import Recipe, Stage
    from autotrainer.testing.findings import EXAMPLES

    recipe = Recipe("tiny", "math", (Stage("grpo", 60, {"max_completion_length": 8}),), 0)
    capped, endless, _ = EXAMPLES["truncation"]
    assert SKILLS["overlong"].code.propose(recipe, (capped,)).knobs == {"max_completion_length": 16}
    (hook,) = SKILLS["overlong"].code.propose(recipe, (endless,)).hooks
    assert (hook.point, hook.ref) == ("rewards", "hooks/overlong.py:SoftOverlong")
