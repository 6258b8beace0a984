"""Facts of the pinned TRL that the harness stands on; where one fails, read the sources again."""

import inspect

import pytest
import torch
import trl
from transformers import AutoModelForCausalLM, AutoTokenizer, get_scheduler
from trl.trainer.grpo_trainer import GRPOTrainer

from harness.trainers.sampler import BatchShape, PromptSampler

SIGNATURES = {
    "_get_train_sampler": ["self", "dataset"],
    "create_scheduler": ["self", "num_training_steps", "optimizer"],
    "training_step": ["self", "model", "inputs", "num_items_in_batch"],
    "_generate": ["self", "prompts"],
    "_calculate_rewards": ["self", "inputs", "prompts", "completions", "completion_ids_list"],
    "_generate_and_score_completions": ["self", "inputs"],
    "_compute_loss": ["self", "model", "inputs"],
    "_prepare_inputs": ["self", "generation_batch"],
    "_tokenize_prompts": ["self", "prompts"],
    "_generate_single_turn": [
        "self", "prompt_ids", "images", "multimodal_fields", "num_generations", "has_tool_images",
    ],
    "_get_per_token_logps_and_entropies": [
        "self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy",
        "compute_aux_loss", "pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask",
        "spatial_shapes", "num_tiles", "image_sizes", "token_type_ids", "mm_token_type_ids",
        "image_position_ids",
    ],
    "log": ["self", "logs", "start_time"],
}  # fmt: skip


def test_trl_is_the_version_that_the_harness_was_written_for():
    assert trl.__version__.split(".")[:2] == ["1", "16"]


def test_every_method_that_is_overridden_is_held_here():
    from harness.trainers.grpo import GrpoTrainer

    own = {name for name in vars(GrpoTrainer) if callable(vars(GrpoTrainer)[name]) and name != "__init__"}
    assert own <= SIGNATURES.keys()
    for name in own:
        ours = list(inspect.signature(getattr(GrpoTrainer, name)).parameters)
        named = [one for one in ours if one not in ("arguments", "keywords")]
        assert named == SIGNATURES[name][: len(named)]
        assert len(named) == len(SIGNATURES[name]) or "keywords" in ours


@pytest.mark.parametrize("name", SIGNATURES)
def test_an_overridden_method_has_its_signature(name):
    assert list(inspect.signature(getattr(GRPOTrainer, name)).parameters) == SIGNATURES[name]


def test_advantages_are_read_after_the_log_probs_were_computed():
    source = inspect.getsource(GRPOTrainer._compute_loss)
    assert source.index("_get_per_token_logps_and_entropies(") < source.index(
        'advantages = inputs["advantages"]'
    )


def test_the_constant_schedule_of_transformers_ignores_a_warm_up():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_scheduler("constant", optimizer, num_warmup_steps=10, num_training_steps=100)
    assert schedule.get_last_lr() == [1.0]


def test_our_sampler_yields_what_trls_yields():
    from trl.trainer.utils import RepeatSampler

    for shuffle in (True, False):
        theirs = RepeatSampler(
            range(10), mini_repeat_count=2, batch_size=4, repeat_count=3, shuffle=shuffle, seed=7
        )
        ours = PromptSampler(10, BatchShape(4, 2, 3), batches=6, seed=7, shuffle=shuffle)
        assert list(ours) == [*theirs, *theirs, *theirs]
        assert len(ours) == 6 * 4 * 2 * 3


def test_a_sampler_resumes_with_the_next_batch_whatever_was_read_ahead():
    shape = BatchShape(4, 1, 1)
    whole = list(PromptSampler(10, shape, batches=8, seed=3))
    first = PromptSampler(10, shape, batches=8, seed=3)
    rows = iter(first)
    for _ in range(16):
        next(rows)
    for _ in range(3):
        first.consume()
    rest = PromptSampler(10, shape, batches=5, seed=99)
    rest.load_state_dict(first.state_dict())
    assert list(rest) == whole[12:]


def test_without_hooks_a_job_is_trls_own_run_step_for_step(run, job_value, data, tmp_path):
    """What four steps log, with two updates a batch, equals plain TRL to the bit."""
    from datasets import Dataset

    from harness.contract import JobSpec
    from harness.tasks import load
    from harness.tasks.files import read_items
    from harness.trainers.arguments import grpo_config

    arguments = {"beta": 0.02, "num_iterations": 2, "warmup_steps": 2, "lr_scheduler_type": "linear"}
    done = run(arguments=arguments, steps=4)
    job = JobSpec.of(job_value(arguments=arguments, steps=4))
    items = read_items(data / "train.jsonl")
    task = load("math")

    def accuracy(completions, answer, **_):
        return [
            task.verify(one[0]["content"], gold, {}).score
            for one, gold in zip(completions, answer, strict=True)
        ]

    args = grpo_config(job, job.stages[0], 0, tmp_path)
    plain = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(job.model.path, dtype=torch.float32),
        args=args,
        reward_funcs=[accuracy],
        processing_class=AutoTokenizer.from_pretrained(job.model.path),
        train_dataset=Dataset.from_list(
            [{"prompt": list(item.prompt), "answer": item.answer} for item in items]
        ),
    )
    plain.train()
    rows = [row for row in plain.state.log_history if "loss" in row]
    for key in ("loss", "grad_norm", "learning_rate", "entropy", "kl", "num_tokens", "reward"):
        assert done.series(key) == [row.get(key) for row in rows]


def test_what_generation_returns_is_in_the_places_that_the_harness_reads():
    source = inspect.getsource(GRPOTrainer._generate)
    assert "return prompt_ids, completion_ids, tool_mask, completions, logprobs, extra_fields" in source


def test_trl_shuffles_the_rows_of_a_generation_batch_and_only_the_first_use_generates():
    source = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert "shuffle_sequence_dict(generation_batch)" in source
    assert "generate_every = self.args.steps_per_generation * self.num_iterations" in source


def test_the_sampler_log_probs_of_a_generation_reach_the_loss():
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert 'output["sampling_per_token_logps"] = sampling_per_token_logps' in source


def test_the_settings_that_are_changed_in_flight_are_read_in_every_step():
    source = inspect.getsource(GRPOTrainer._compute_loss)
    for name in ("self.epsilon_low", "self.epsilon_high", "self.beta", "self.args.entropy_target"):
        assert name in source
