"""Hooks: loaded by name, refused by name, composed in order."""

import pytest
import torch

from harness.hooks.api import LossTerm


def hook(point, ref, **params):
    return {"point": point, "ref": ref, "params": params}


class Half:
    """Scales the advantages."""

    def __init__(self, factor=0.5):
        self.factor = factor

    def group(self, inputs):
        return self.factor * inputs.advantages_P_G


class LeaveOneOut:
    def group(self, inputs):
        rewards, size = inputs.rewards_P_G, inputs.rewards_P_G.shape[1]
        return (rewards - rewards.mean(1, keepdim=True)) * size / (size - 1)


def test_a_group_hook_replaces_the_advantages_and_hooks_compose_in_order(run, module):
    ref = module("hooks", Half=Half, LeaveOneOut=LeaveOneOut)
    plain = run(steps=1, hooks=[hook("advantages", f"{ref}:LeaveOneOut")]).rows[0]
    both = run(steps=1, hooks=[
        hook("advantages", f"{ref}:LeaveOneOut"), hook("advantages", f"{ref}:Half", factor=0.25),
    ]).rows[0]  # fmt: skip
    assert plain["reward"] == both["reward"]
    expected = plain["groups/reward_variance"] * (8 / 7) ** 2
    assert plain["advantages/std"] ** 2 == pytest.approx(expected, rel=1e-4)
    assert both["advantages/std"] == pytest.approx(0.25 * plain["advantages/std"], rel=1e-5)


def test_zero_advantages_move_nothing(run, module):
    ref = module("hooks", Half=Half)
    done = run(steps=2, hooks=[hook("advantages", f"{ref}:Half", factor=0.0)])
    assert done.series("grad_norm") == [0.0, 0.0]
    assert done.rows[-1]["kl_start"] == pytest.approx(0.0, abs=1e-6)


def test_a_token_hook_sees_logprobs_and_sets_token_advantages(run, module):
    shapes = []

    class OnlyFirst:
        def tokens(self, inputs):
            shapes.append(
                (inputs.logps_B_T.shape, inputs.entropies_B_T.requires_grad, inputs.group_B.unique().numel())
            )
            first = torch.zeros_like(inputs.logps_B_T)
            first[:, 0] = inputs.advantages
            return first

    class Same:
        def tokens(self, inputs):
            return inputs.advantages.unsqueeze(1).expand_as(inputs.logps_B_T)

    ref = module("hooks", OnlyFirst=OnlyFirst, Same=Same)
    plain, same, first = (
        run(steps=1, hooks=hooks).rows[0]["grad_norm"]
        for hooks in ([], [hook("advantages", f"{ref}:Same")], [hook("advantages", f"{ref}:OnlyFirst")])
    )
    assert same == pytest.approx(plain, rel=1e-6)
    assert first != pytest.approx(plain, rel=1e-2)
    assert shapes[0][0][0] == 32
    assert shapes[0][1:] == (False, 4)


def test_a_loss_term_is_added_and_its_metrics_are_logged(run, module):
    class Entropy:
        def __init__(self, coef):
            self.coef = coef

        def term(self, inputs):
            mask = inputs.mask_B_T
            entropy = (inputs.entropies_B_T * mask).sum() / mask.sum()
            return LossTerm(-self.coef * entropy / inputs.accumulation, {"term": float(entropy.detach())})

    ref = module("hooks", Entropy=Entropy)
    ours = run(steps=2, hooks=[hook("loss", f"{ref}:Entropy", coef=0.01)])
    trls = run(steps=2, arguments={"entropy_coef": 0.01})
    assert ours.rows[0]["term"] == pytest.approx(ours.rows[0]["entropy"], rel=1e-5)
    assert ours.series("grad_norm") == pytest.approx(trls.series("grad_norm"), rel=1e-5)


def test_a_reward_hook_adds_a_component_but_never_touches_the_verifiers(run, module):
    class Short:
        adds = {"short": 2.0}  # noqa: RUF012

        def components(self, inputs):
            inputs.components_N["accuracy"].zero_()
            return {"short": torch.tensor([1.0 / len(ids) for ids in inputs.completion_ids_N])}

    class Cheat:
        def components(self, inputs):
            return {"accuracy": torch.ones(len(inputs.completions_N))}

    ref = module("hooks", Short=Short, Cheat=Cheat)
    row = run(steps=1, hooks=[hook("rewards", f"{ref}:Short")]).rows[0]
    assert row["rewards/accuracy/mean"] > 0
    assert row["reward"] == pytest.approx(
        row["rewards/accuracy/mean"] + 2 * row["rewards/short/mean"], rel=1e-5
    )
    failed = run(steps=1, hooks=[hook("rewards", f"{ref}:Cheat")]).result
    assert "may not set 'accuracy'" in failed["reason"]


def test_a_sampler_hook_chooses_prompts_from_history_and_resumes_exactly(run, module):
    seen = []

    class Again:
        """The prompts of the pass, but those that were visited once are taken again."""

        def choose(self, inputs):
            seen.append((inputs.batch, len(inputs.history)))
            known = sorted(inputs.history)
            return [*known, *inputs.proposed_P][: len(inputs.proposed_P)]

    ref = module("hooks", Again=Again)
    hooks = [hook("sampler", f"{ref}:Again")]
    whole = run(steps=4, hooks=hooks)
    assert seen == [(0, 0), (1, 0), (2, 4), (3, 8)]
    start = {"mode": "exact", "node": "n001", "step": 2, "path": str(whole.checkpoint(2))}
    rest = run(steps=4, hooks=hooks, job={"start": start})
    assert rest.series("reward") == whole.series("reward")[2:]
    assert rest.series("grad_norm") == whole.series("grad_norm")[2:]


def test_a_callback_hook_changes_settings_between_steps_and_keeps_its_state(run, module):
    class Halve:
        def __init__(self):
            self.calls = 0

        def after_step(self, inputs):
            self.calls += 1
            return {"learning_rate": inputs.settings["learning_rate"] / 2}

        def state_dict(self):
            return {"calls": self.calls}

        def load_state_dict(self, state):
            self.calls = state["calls"]

    ref = module("hooks", Halve=Halve)
    done = run(steps=3, hooks=[hook("callbacks", f"{ref}:Halve")])
    assert done.series("learning_rate") == pytest.approx([1e-4, 5e-5, 2.5e-5])
    state = torch.load(done.checkpoint(2) / "state" / "hooks.pt")
    assert list(state.values()) == [{"calls": 2}]


@pytest.mark.parametrize(
    ("point", "names", "arguments", "message"),
    [
        ("rollouts", {"X": Half}, {}, "the point 'rollouts' is not supported yet"),
        ("loss", {"X": Half}, {}, "a hook at 'loss' needs the method term"),
        ("advantages", {}, {}, "the file has no class X"),
        ("advantages", {"X": type("X", (Half,), {"needs": {"logits"}})}, {}, "needs logits"),
        ("advantages", {"X": type("X", (Half,), {"needs": {"reference"}})}, {}, "set beta above 0"),
        ("advantages", {"X": type("X", (Half,), {"needs": {"sampler_logps"}})}, {}, "set use_vllm"),
        (
            "advantages", {"X": type("X", (Half,), {"needs": {"whole_groups"}})},
            {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 2, "steps_per_generation": 2},
            "steps_per_generation is 2",
        ),
        ("advantages", {"X": type("X", (Half,), {"group": lambda _, one: one.rewards_P_G[0]})}, {}, "(4, 8)"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_by_the_hooks_name(run, module, point, names, arguments, message):
    ref = module("hooks", **names)
    done = run(steps=1, arguments=arguments, hooks=[hook(point, f"{ref}:X")])
    assert done.result["status"] == "failed"
    assert f"{ref}:X" in done.result["reason"]
    assert message in done.result["reason"]
    assert done.rows == []


def test_a_hook_file_that_is_not_there_is_named(run):
    done = run(steps=1, hooks=[hook("loss", "hooks/nowhere.py:X")])
    assert "hooks/nowhere.py:X: there is no such file" in done.result["reason"]
