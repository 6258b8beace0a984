import copy
from pathlib import Path

import pytest
import torch
from scipy import stats
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness.generation import generate, prompt_ids, rows_that_fit
from harness.tasks import load

TINY = Path(__file__).parents[2] / "autotrainer" / "models" / "tiny"
PROMPTS = [item.prompt for item in load("math").splits({"probe": 40}, 0)["probe"]]


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(TINY)


def sample(model, tokenizer, prompts=PROMPTS, **changes):
    arguments = {"max_new_tokens": 8, "temperature": 1.0, "samples": 4, "seed": 3}
    return generate(model, tokenizer, prompts, **arguments | changes)


def test_greedy_completions_are_those_of_transformers(model, tokenizer):
    ours = sample(model, tokenizer, temperature=0.0)
    for prompt, [completion] in zip(PROMPTS, ours, strict=True):
        ids = torch.tensor(prompt_ids(tokenizer, [prompt]))
        mask = torch.ones_like(ids)
        reference = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=8)
        assert list(completion.tokens) == reference[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_samples_follow_the_models_distribution(model, tokenizer, temperature):
    prompt = PROMPTS[:1]
    drawn = sample(model, tokenizer, prompt, samples=2000, temperature=temperature, max_new_tokens=1)[0]
    with torch.no_grad():
        logits = model(torch.tensor(prompt_ids(tokenizer, prompt))).logits[0, -1]
    chances = torch.softmax(logits.double() / temperature, -1)
    likely = (chances * 2000 >= 5).nonzero()[:, 0].tolist()
    counts = [sum(completion.tokens[0] == token for completion in drawn) for token in likely]
    expected = [float(chances[token]) * 2000 for token in likely]
    rest = 2000 - sum(counts), 2000 - sum(expected)
    assert stats.chisquare([*counts, rest[0]], [*expected, rest[1]]).pvalue > 0.001


def test_a_completion_does_not_depend_on_its_company(model, tokenizer):
    together = sample(model, tokenizer)
    assert sample(model, tokenizer, batch_size=7) == together
    assert sample(model, tokenizer, PROMPTS[:9]) == together[:9]
    assert [some[:2] for some in together] == sample(model, tokenizer, samples=2)


def test_the_seed_decides(model, tokenizer):
    assert sample(model, tokenizer) == sample(model, tokenizer)
    assert sample(model, tokenizer) != sample(model, tokenizer, seed=4)
    assert len({completion.text for completion in sample(model, tokenizer, PROMPTS[:1], samples=64)[0]}) > 1


def test_checkpoints_that_differ_little_see_common_random_numbers(model, tokenizer):
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.001)

    def agreement(left, right):
        one, two = ([completion.text for some in side for completion in some] for side in (left, right))
        return sum(a == b for a, b in zip(one, two, strict=True)) / len(one)

    common = agreement(sample(model, tokenizer), sample(other, tokenizer))
    assert common > 0.9 > agreement(sample(model, tokenizer), sample(model, tokenizer, seed=4))


def test_a_completion_that_reaches_the_cap_has_not_stopped(model, tokenizer):
    for completions in sample(model, tokenizer, max_new_tokens=2):
        for completion in completions:
            assert 1 <= len(completion.tokens) <= 2
            assert completion.stopped == (completion.tokens[-1] == tokenizer.eos_token_id)


def test_a_model_that_has_gone_to_nan_still_answers(model, tokenizer):
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.model.norm.weight.fill_(float("nan"))
    assert len(sample(broken, tokenizer)) == len(PROMPTS)
    assert len(sample(broken, tokenizer, temperature=0.0)) == len(PROMPTS)


def test_a_model_in_training_stays_in_training(model, tokenizer):
    trained = copy.deepcopy(model).train()
    sample(trained, tokenizer, PROMPTS[:2])
    assert trained.training
    assert sample(trained, tokenizer, []) == []


def test_batches_are_bounded_by_the_memory_of_cache_and_logits(model):
    assert rows_that_fit(model, 32) == 1024
    assert 1 <= rows_that_fit(model, 10**6) < rows_that_fit(model, 10**4) < 1024


def test_numbers_out_of_range_are_refused(model, tokenizer):
    with pytest.raises(ValueError, match="samples 0"):
        sample(model, tokenizer, samples=0)
