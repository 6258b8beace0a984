"""The worked examples of the hook points, in real jobs and against what they say of themselves."""

import pytest
import torch

from harness.hooks.api import GroupInputs, PromptHistory, RolloutBatch, SamplerInputs
from harness.hooks.examples import LeastKnownFirst, LeaveOneOut


def example(point, name, **params):
    return {"point": point, "ref": f"hooks/examples.py:{name}", "params": params}


ALL = [
    example("sampler", "LeastKnownFirst"),
    example("rollouts", "DynamicSampling", tries=1),
    example("rewards", "Brevity"),
    example("advantages", "LeaveOneOut"),
    example("advantages", "HighEntropyTokens", share=0.5),
    example("loss", "EntropyBonus", coef=0.001),
    example("loss", "Reinforce"),
    example("callbacks", "EntropyThermostat", target=2.0),
]


def test_all_examples_work_in_one_job_that_resumes_to_the_bit(run):
    whole = run(steps=4, arguments={"beta": 0.01}, hooks=ALL)
    assert whole.result["status"] == "completed"
    last = whole.rows[-1]
    assert last["rollouts/drawn"] >= 32
    assert last["rewards/brevity/mean"] > 0
    assert last["bonus/entropy"] > 0
    start = {"mode": "exact", "node": "n001", "step": 2, "path": str(whole.checkpoint(2))}
    rest = run(steps=4, arguments={"beta": 0.01}, hooks=ALL, job={"start": start})
    assert rest.series("grad_norm") == whole.series("grad_norm")[2:]
    states = torch.load(rest.checkpoint(4) / "state" / "hooks.pt")
    assert list(states.values()) == [{"acted": 4}]


def test_the_sampler_prefers_prompts_that_are_half_known():
    def known(rate):
        return PromptHistory(1, rate, rate, 0.0)

    inputs = SamplerInputs(
        batch=1,
        size=10,
        proposed_P=(5, 6, 7),
        history={5: known(1.0), 1: known(0.5), 2: known(0.0), 6: known(0.6)},
        prompt_ids=[str(place) for place in range(10)],
        seed=0,
    )
    assert LeastKnownFirst().choose(inputs) == [7, 1, 6]


def test_leave_one_out_is_what_trls_rloo_trainer_computes(run, data, tmp_path):
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import RLOOConfig, RLOOTrainer

    from harness.tasks import load
    from harness.tasks.files import read_items
    from tests.harness.conftest import TINY

    task, seen = load("math"), []

    def accuracy(completions, answer, **_):
        scores = [
            task.verify(one[0]["content"], gold, {}).score
            for one, gold in zip(completions, answer, strict=True)
        ]
        seen.append(scores)
        return scores

    args = RLOOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, gradient_checkpointing=False, max_steps=1,
        report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True, per_device_train_batch_size=32,
        num_generations=8, max_completion_length=6, beta=0.0, dataloader_pin_memory=False,
    )  # fmt: skip
    rows = [{"prompt": list(item.prompt), "answer": item.answer} for item in read_items(data / "train.jsonl")]
    trainer = RLOOTrainer(
        model=AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32),
        reward_funcs=[accuracy],
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(TINY),
    )
    trainer.train()
    rewards = torch.tensor(seen[0]).view(4, 8)
    inputs = GroupInputs(
        step=1,
        advantages_P_G=torch.zeros(4, 8),
        rewards_P_G=rewards,
        components_P_G={},
        lengths_P_G=torch.ones(4, 8),
        truncated_P_G=torch.zeros(4, 8, dtype=torch.bool),
        prompt_ids_P=["a", "b", "c", "d"],
        max_completion_length=6,
    )
    theirs = torch.tensor(list(trainer._logs["advantages"])[-32:]).view(4, 8)
    torch.testing.assert_close(LeaveOneOut().group(inputs), theirs, atol=1e-5, rtol=1e-5)
    assert theirs.abs().max() > 0
    missing = torch.tensor([[1.0, float("nan"), 0.0]])
    alone = LeaveOneOut().group(GroupInputs(1, missing, missing, {}, missing, missing.bool(), ["a"], 6))
    assert alone.tolist() == [[1.0, 0.0, -1.0]]


def test_dynamic_sampling_leaves_fewer_groups_without_a_signal(run):
    arguments = {"learning_rate": 0.0, "temperature": 0.3}
    plain = run(steps=3, arguments=arguments)
    dynamic = run(
        steps=3,
        arguments=arguments,
        hooks=[example("rollouts", "DynamicSampling", tries=4)],
    )
    assert sum(dynamic.series("groups/mixed")) > sum(plain.series("groups/mixed"))
    assert sum(dynamic.series("rollouts/surplus_tokens")) > 0
    assert dynamic.result["tokens"] > plain.result["tokens"]


def test_reinforce_has_the_gradient_of_dapo_on_policy(run):
    ours = run(steps=2, hooks=[example("loss", "Reinforce")])
    trls = run(steps=2)
    assert ours.series("grad_norm") == pytest.approx(trls.series("grad_norm"), rel=1e-4)


def test_high_entropy_tokens_alone_have_trls_gradient_of_the_same_share(run):
    ours = run(steps=1, hooks=[example("advantages", "HighEntropyTokens", share=0.2)])
    trls = run(steps=1, arguments={"top_entropy_quantile": 0.2})
    assert ours.rows[0]["grad_norm"] == pytest.approx(trls.rows[0]["grad_norm"], rel=1e-3)


def test_replayed_completions_are_no_gap_of_the_sampler(run, module):
    """Old completions with their old log-probs do not fail the node, and are named by their tag."""
    from dataclasses import replace

    class Replays:
        needs = frozenset({"sampler_logps"})

        def draw(self, inputs):
            rows = [row for row in inputs.rows_P for _ in range(inputs.group_size)]
            draws = inputs.generate(rows)
            old = [
                replace(one, logps=tuple(value - 3.0 for value in one.logps), fresh=False, tag="replayed")
                for one in draws[:8]
            ]
            return RolloutBatch([*old, *draws[8:]])

    ref = module("hooks", Replays=Replays)
    done = run(steps=2, hooks=[{"point": "rollouts", "ref": f"{ref}:Replays"}])
    assert done.result["status"] == "completed"
    assert done.rows[0]["sampler/gap_mean"] < 1e-4
    assert 0 < done.rows[0]["advantages/share/replayed"] < 1
