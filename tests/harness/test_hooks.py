"""Hooks: loaded by name, refused by name, composed in order."""

from pathlib import Path

import pytest
import torch

from harness.hooks.api import LossTerm, RolloutBatch

ROOT = Path(__file__).resolve().parents[2]


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
        ("rollouts", {"X": Half}, {}, "a hook at 'rollouts' needs the method draw"),
        ("loss", {"X": Half}, {}, "a hook at 'loss' needs the method term or objective"),
        ("advantages", {}, {}, "the file has no class X"),
        ("advantages", {"X": type("X", (Half,), {"needs": {"nothing"}})}, {}, "needs 'nothing'"),
        ("advantages", {"X": type("X", (Half,), {"needs": {"reference"}})}, {}, "set beta above 0"),
        (
            "advantages", {"X": type("X", (Half,), {"needs": {"whole_groups"}})},
            {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 8, "steps_per_generation": 8},
            "per_device_train_batch_size = 4 is not a multiple of num_generations = 8",
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


# ---- rollouts


def first_rows(done, step):
    import pyarrow.parquet as pq

    files = sorted((done.folder / "rollouts").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist() if row["step"] == step]


class BestOfEight:
    """Draws twice the group and keeps as many right and wrong ones as it can; baselines of all draws."""

    def draw(self, inputs):
        size, kept, baselines = inputs.group_size, [], []
        for row in inputs.rows_P:
            draws = inputs.generate([row] * (2 * size))
            scores = inputs.verify(draws)
            order = sorted(range(2 * size), key=lambda place: scores[place])
            chosen = [*order[: size // 2], *order[-(size // 2) :]]
            kept += [draws[place] for place in chosen]
            baselines.append(sum(scores) / len(scores))
        return RolloutBatch(kept, baselines)


def test_a_rollouts_hook_may_draw_more_and_is_charged_for_the_surplus(run, module):
    ref = module("hooks", BestOfEight=BestOfEight)
    done = run(steps=1, hooks=[hook("rollouts", f"{ref}:BestOfEight")])
    plain = run(steps=1)
    row, rows = done.rows[0], first_rows(done, 1)
    assert len(rows) == 32
    assert row["rollouts/drawn"] == 64
    assert row["rollouts/surplus_tokens"] > 0
    kept = row["num_tokens"] - row["rollouts/surplus_tokens"]
    assert abs(kept - plain.rows[0]["num_tokens"]) < 60
    assert done.result["tokens"] == row["num_tokens"]
    for group in range(4):
        own = [one for one in rows if one["group"] == group]
        assert len({one["prompt_id"] for one in own}) == 1
        baselines = {round(one["reward"] - one["advantage"], 5) for one in own}
        assert len(baselines) == 1
        assert baselines.pop() * 16 == pytest.approx(round(16 * (own[0]["reward"] - own[0]["advantage"])))


class KeepsMixed:
    """DAPO's dynamic sampling, one round: a group of one verdict gives way to one of another prompt."""

    def draw(self, inputs):
        size, kept = inputs.group_size, []
        for row in inputs.rows_P:
            draws = []
            for candidate in [row, *inputs.more(6)]:
                draws = inputs.generate([candidate] * size)
                if 0 < sum(inputs.score(draws)) < size:
                    break
            kept += draws
        return RolloutBatch(kept)


def test_a_rollouts_hook_may_train_on_other_prompts_and_resumes_exactly(run, module):
    ref = module("hooks", KeepsMixed=KeepsMixed)
    hooks = [hook("rollouts", f"{ref}:KeepsMixed")]
    whole = run(steps=4, hooks=hooks)
    assert whole.series("groups/mixed") == [1.0] * 4
    start = {"mode": "exact", "node": "n001", "step": 2, "path": str(whole.checkpoint(2))}
    rest = run(steps=4, hooks=hooks, job={"start": start})
    assert rest.series("grad_norm") == whole.series("grad_norm")[2:]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda inputs, draws: draws, "returned list, not a RolloutBatch"),
        (lambda inputs, draws: RolloutBatch(draws[:-1]), "need 4 groups of 8, 32 in all"),
        (lambda inputs, draws: RolloutBatch(draws[::-8] * 8), "more than one prompt in group 0"),
        (lambda inputs, draws: RolloutBatch(draws, [0.5]), "returned 1 baselines_P: need 4"),
        (lambda inputs, draws: RolloutBatch(draws, None, [1.0] * 4), "without baselines_P"),
    ],
)
def test_a_draw_that_is_not_p_groups_of_g_fails_by_the_hooks_name(run, module, returned, message):
    class Wrong:
        def draw(self, inputs):
            rows = [row for row in inputs.rows_P for _ in range(inputs.group_size)]
            return returned(inputs, inputs.generate(rows))

    ref = module("hooks", Wrong=Wrong)
    done = run(steps=1, hooks=[hook("rollouts", f"{ref}:Wrong")])
    assert done.result["status"] == "failed"
    assert f"{ref}:Wrong" in done.result["reason"]
    assert message in done.result["reason"]


# ---- whole objectives, needs


class Reinforce:
    """-A log p, a mean over rows."""

    def objective(self, inputs):
        mask = inputs.mask_B_T
        rows = -(inputs.advantages[:, None] * inputs.logps_B_T * mask).sum(1) / mask.sum(1)
        return LossTerm(rows.mean() / inputs.accumulation, {"objective/rows": float(len(rows))})


class Other(Reinforce):
    pass


def test_a_whole_objective_replaces_trls_loss_and_logs_trls_keys(run, module):
    ref = module("hooks", Reinforce=Reinforce)
    arguments = {"loss_type": "grpo", "beta": 0.0}
    ours = run(steps=2, arguments=arguments, hooks=[hook("loss", f"{ref}:Reinforce")])
    trls = run(steps=2, arguments=arguments)
    # On policy the gradient of the ratio is that of the log-prob.
    assert ours.series("grad_norm") == pytest.approx(trls.series("grad_norm"), rel=1e-4)
    assert ours.series("entropy") == pytest.approx(trls.series("entropy"), rel=1e-4)
    assert ours.rows[0]["objective/rows"] == 32
    assert "clip_ratio/low_mean" not in ours.rows[0]


def test_a_whole_objective_logs_the_kl_though_it_is_no_part_of_it(run, module):
    ref = module("hooks", Reinforce=Reinforce)
    done = run(steps=2, arguments={"beta": 0.1}, hooks=[hook("loss", f"{ref}:Reinforce")])
    assert done.series("kl")[0] == pytest.approx(0.0, abs=1e-7)
    assert done.series("kl")[1] > 0


def test_two_whole_objectives_clash_by_name(run, module):
    ref = module("hooks", Reinforce=Reinforce, Other=Other)
    hooks = [hook("loss", f"{ref}:Reinforce"), hook("loss", f"{ref}:Other")]
    done = run(steps=1, hooks=hooks)
    assert done.result["status"] == "failed"
    assert f"{ref}:Reinforce and {ref}:Other: each is a whole objective" in done.result["reason"]
    assert done.rows == []


def test_an_objective_and_terms_add_up(run, module):
    class Nothing:
        def term(self, inputs):
            return LossTerm(0.0 * inputs.logps_B_T.sum(), {"term/seen": 1.0})

    ref = module("hooks", Reinforce=Reinforce, Nothing=Nothing)
    both = run(steps=1, hooks=[hook("loss", f"{ref}:Reinforce"), hook("loss", f"{ref}:Nothing")]).rows[0]
    alone = run(steps=1, hooks=[hook("loss", f"{ref}:Reinforce")]).rows[0]
    assert both["term/seen"] == 1.0
    assert both["grad_norm"] == pytest.approx(alone["grad_norm"], rel=1e-6)


def test_logits_are_given_on_request_and_agree_with_the_fused_head(run, module):
    gaps = []

    class Looks:
        needs = frozenset({"logits"})

        def term(self, inputs):
            scaled = torch.log_softmax(inputs.logits_B_T_V / inputs.temperature, -1)
            entropies = -(scaled.exp() * scaled).sum(-1)
            gap = (entropies - inputs.entropies_B_T).abs() * inputs.mask_B_T
            gaps.append(gap.max().item())
            return LossTerm(0.0 * inputs.logits_B_T_V.sum(), {})

    ref = module("hooks", Looks=Looks)
    arguments = {"temperature": 0.8}
    with_logits = run(steps=1, arguments=arguments, hooks=[hook("loss", f"{ref}:Looks")]).rows[0]
    fused = run(steps=1, arguments=arguments).rows[0]
    assert max(gaps) < 1e-5
    assert with_logits["grad_norm"] == pytest.approx(fused["grad_norm"], rel=1e-4)
    assert with_logits["time/logits_s"] > 0


def test_whole_groups_are_kept_in_one_micro_batch_on_request(run, module):
    seen = []

    class Groups:
        needs = frozenset({"whole_groups"})

        def tokens(self, inputs):
            seen.append(sorted(inputs.group_B.tolist()))
            return inputs.advantages[:, None].expand_as(inputs.logps_B_T)

    ref = module("hooks", Groups=Groups)
    parts = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 2, "steps_per_generation": 2}
    split = run(steps=1, arguments=parts, hooks=[hook("advantages", f"{ref}:Groups")]).rows[0]
    assert all(groups.count(group) == 8 for groups in seen for group in groups)
    assert sorted(seen[0] + seen[1]) == sorted([0, 1, 2, 3] * 8)
    whole = run(steps=1).rows[0]
    assert split["grad_norm"] == pytest.approx(whole["grad_norm"], rel=1e-4)


# ---- a hook that fails in the middle of a run


def test_a_hook_that_fails_is_named_by_file_and_line_and_the_record_is_kept(run, tmp_path, monkeypatch):
    path = ROOT / "harness" / "hooks" / "breaks.py"
    monkeypatch.setattr("harness.run.WORKSPACE", tmp_path)
    place = tmp_path / "harness" / "hooks" / "breaks.py"
    place.parent.mkdir(parents=True)
    place.write_text(
        "class Breaks:\n"
        "    def group(self, inputs):\n"
        "        if inputs.step == 3:\n"
        "            return inputs.rewards_P_G / {}['scale']\n"
        "        return inputs.advantages_P_G\n"
        "class Short:\n"
        "    def group(self, inputs):\n"
        "        return inputs.rewards_P_G[:1] if inputs.step == 2 else inputs.advantages_P_G\n"
    )
    assert not path.exists()
    monkeypatch.setattr(
        "harness.hooks.__path__", [*__import__("harness.hooks").hooks.__path__, str(place.parent)]
    )
    done = run(steps=4, hooks=[hook("advantages", "hooks/breaks.py:Breaks")])
    assert done.result["status"] == "failed"
    assert done.result["failure"] == {
        "type": "KeyError", "message": "'scale'", "file": "harness/hooks/breaks.py", "line": 4,
    }  # fmt: skip
    assert done.series("step") == [1, 2]
    assert first_rows(done, 2)
    assert done.result["checkpoints"] == [{"kind": "full", "step": 2}]
    wrong = run(steps=4, hooks=[hook("advantages", "hooks/breaks.py:Short")])
    assert wrong.result["failure"]["file"] == "harness/hooks/breaks.py"
    assert wrong.result["failure"]["line"] == 7
    assert "need a tensor of shape (4, 8)" in wrong.result["failure"]["message"]
