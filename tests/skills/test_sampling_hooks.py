"""Hooks that choose prompts and draws, and those on entropy, length and stale completions, by hand."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

from autotrainer.library.loader import load_skills
from harness.hooks.api import (
    Draw,
    LossInputs,
    PromptHistory,
    PromptRow,
    RewardInputs,
    RolloutInputs,
    SamplerInputs,
    StepInputs,
)

SKILLS = load_skills()


def hook(skill: str, name: str, **params):
    path = Path(SKILLS[skill].card.hook)
    spec = importlib.util.spec_from_file_location(f"hook_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)(**params), module


def seen(rate: float) -> PromptHistory:
    return PromptHistory(visits=1, pass_rate=rate, last_pass_rate=rate, mean_abs_advantage=0.0)


def choice(history, proposed=(0, 1, 2, 3), seed=0) -> SamplerInputs:
    return SamplerInputs(0, 10, proposed, history, [str(i) for i in range(10)], seed)


def test_vcrl_replaces_solved_and_hopeless_prompts_by_half_solved_ones():
    sampler, module = hook("vcrl", "VarianceSampler", threshold=0.3, share=1.0)
    assert [module.variance(seen(rate)) for rate in (0.0, 0.5, 1.0)] == [0.0, 1.0, 0.0]
    history = {0: seen(0.0), 1: seen(1.0), 2: seen(0.5), 7: seen(0.5), 8: seen(0.4), 9: seen(0.99)}
    chosen = sampler.choose(choice(history))
    assert set(chosen[:2]) == {7, 8}
    assert list(chosen[2:]) == [2, 3]
    assert sampler.choose(choice(history)) == chosen


def test_vcrl_leaves_new_prompts_and_half_of_the_batch_alone():
    sampler, _ = hook("vcrl", "VarianceSampler", share=0.5)
    assert list(sampler.choose(choice({}))) == [0, 1, 2, 3]
    history = {i: seen(0.0) for i in range(4)} | {i: seen(0.5) for i in range(4, 10)}
    assert sum(a != b for a, b in zip(sampler.choose(choice(history)), range(4), strict=True)) == 2


def rollouts(
    rewards: dict[str, list[float]], names="ab", size=2, spare=("c", "d")
) -> tuple[RolloutInputs, list[str]]:
    """Draws whose rewards come from a list a prompt, in order; what was drawn is kept."""
    drawn: list[str] = []
    left = {name: list(values) for name, values in rewards.items()}
    extra = list(spare)

    def row(name: str) -> PromptRow:
        return PromptRow(name, (), "", {})

    def generate(rows, model=None, temperature=None) -> list[Draw]:
        drawn.extend(row.prompt_id for row in rows)
        return [Draw(row, (1,), str(left[row.prompt_id].pop(0)), None) for row in rows]

    inputs = RolloutInputs(
        step=1,
        batch=0,
        rows_P=[row(name) for name in names],
        group_size=size,
        max_completion_length=8,
        temperature=1.0,
        seed=0,
        policy=None,
        generate=generate,
        score=lambda draws: [float(draw.text) for draw in draws],
        verify=lambda draws: [float(draw.text) for draw in draws],
        more=lambda count: [row(extra.pop(0)) for _ in range(min(count, len(extra)))],
        proposed=None,
    )
    return inputs, drawn


def test_dynamic_sampling_drops_groups_that_tie_and_draws_other_prompts_for_them():
    refill, _ = hook("dapo-dynamic-sampling", "DropAndRefill", rounds=3)
    inputs, drawn = rollouts({"a": [1, 1], "b": [1, 0], "c": [0, 0], "d": [0, 1]})
    batch = refill.draw(inputs)
    assert [draw.row.prompt_id for draw in batch.draws_N] == ["b", "b", "d", "d"]
    assert drawn == list("aabbccdd")


def test_dynamic_sampling_ends_with_tied_groups_when_its_rounds_are_used_up():
    refill, _ = hook("dapo-dynamic-sampling", "DropAndRefill", rounds=1)
    inputs, drawn = rollouts({"a": [1, 1], "b": [1, 0]})
    assert [draw.row.prompt_id for draw in refill.draw(inputs).draws_N] == ["b", "b", "a", "a"]
    assert len(drawn) == 4


def test_adaptive_draws_go_on_for_prompts_that_tie_and_their_baseline_is_the_mean_of_all_draws():
    adaptive, _ = hook("reinforce-ada", "AdaptiveDraws", rounds=3)
    inputs, drawn = rollouts({"a": [0, 1], "b": [0, 0, 0, 1]})
    batch = adaptive.draw(inputs)
    assert drawn == list("aabbbb")
    assert batch.baselines_P == [0.5, 0.25]
    assert [float(draw.text) for draw in batch.draws_N] == [1, 0, 1, 0]


def test_the_entropy_coefficient_rises_below_its_target_and_falls_above():
    control, _ = hook("adaptive-entropy", "EntropyTarget", share=1.0, delta=0.001, ceiling=0.002)

    def after(entropy: float, now: float) -> float:
        return control.after_step(StepInputs(1, 1, 9, {"entropy": entropy}, {"entropy_coef": now}))[
            "entropy_coef"
        ]

    after(0.5, 0.0)
    assert after(0.4, 0.001) == pytest.approx(0.002)
    assert after(0.4, 0.002) == pytest.approx(0.002)
    assert after(0.6, 0.0005) == 0.0
    again, _ = hook("adaptive-entropy", "EntropyTarget")
    again.load_state_dict(control.state_dict())
    assert again.state_dict() == {"target": 0.5}
    assert control.after_step(StepInputs(1, 1, 9, {}, {})) == {}


def test_clamped_entropy_is_that_of_the_kept_tokens_renormalised():
    _, module = hook("aent", "ClampedEntropy")
    logits = torch.log(torch.tensor([[[0.5, 0.25, 0.15, 0.1]]]))
    whole = -sum(p * math.log(p) for p in (0.5, 0.25, 0.15, 0.1))
    assert module.clamped_entropy(logits, 0.0).item() == pytest.approx(whole, abs=1e-6)
    kept = [0.5 / 0.75, 0.25 / 0.75]
    halved = module.clamped_entropy(logits, 0.5).item()
    assert halved == pytest.approx(-sum(p * math.log(p) for p in kept), abs=1e-6)


def test_the_clamped_bonus_gives_no_gradient_to_removed_tokens():
    _, module = hook("aent", "ClampedEntropy")
    logits = torch.tensor([[[2.0, 1.0, -1.0, -2.0]]], requires_grad=True)
    module.clamped_entropy(logits, 0.5).sum().backward()
    assert torch.equal(logits.grad[0, 0, 2:], torch.zeros(2))
    assert logits.grad[0, 0, :2].abs().min() > 0


def test_only_negative_completions_that_the_policy_has_left_are_masked():
    mask, _ = hook("off-policy-mask", "OffPolicyMask", bound=0.5)
    old = torch.zeros(4, 2)
    now = torch.tensor([[-1.0, -1.0], [-1.0, -1.0], [-0.1, -0.1], [-2.0, -9.0]])
    inputs = LossInputs(
        step=1,
        logps_B_T=now,
        old_logps_B_T=old,
        ref_logps_B_T=None,
        sampler_logps_B_T=None,
        entropies_B_T=torch.zeros(4, 2),
        advantages=torch.tensor([-1.0, 1.0, -1.0, -1.0]),
        mask_B_T=torch.tensor([[1, 1], [1, 1], [1, 1], [0, 0]]),
        group_B=torch.zeros(4),
        num_items_in_batch=torch.tensor(6.0),
        accumulation=1,
        steps_per_generation=1,
        processes=1,
        max_completion_length=8,
    )
    assert mask.tokens(inputs).tolist() == [[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]]


def test_short_right_answers_pay_and_short_wrong_ones_do_not():
    reward, _ = hook("kimi-length", "LengthReward", weight=0.2)
    inputs = RewardInputs(
        step=1,
        prompts_N=[[]] * 8,
        completions_N=[""] * 8,
        completion_ids_N=[[0] * n for n in (2, 4, 6, 2, 3, 3, 3, 3)],
        prompt_ids_N=["a"] * 4 + ["b"] * 4,
        answers_N=[""] * 8,
        columns_N=[{}] * 8,
        components_N={"accuracy": torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0])},
        group_size=4,
        max_completion_length=8,
    )
    assert reward.components(inputs)["length"].tolist() == [0.5, 0.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert reward.adds == {"length": 0.2}


@pytest.mark.parametrize(
    ("skill", "name", "params"),
    [
        ("vcrl", "VarianceSampler", {"share": 2}),
        ("dapo-dynamic-sampling", "DropAndRefill", {"rounds": 0}),
        ("reinforce-ada", "AdaptiveDraws", {"rounds": 0}),
        ("adaptive-entropy", "EntropyTarget", {"delta": 0}),
        ("off-policy-mask", "OffPolicyMask", {"bound": -1}),
        ("aent", "ClampedEntropy", {"clamp": 1}),
    ],
)
def test_parameters_that_make_no_sense_are_refused(skill, name, params):
    with pytest.raises(ValueError, match="is not allowed"):
        hook(skill, name, **params)
