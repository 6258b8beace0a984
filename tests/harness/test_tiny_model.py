import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tasks import load

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FOLDER = Path(__file__).parents[2] / "autotrainer" / "models" / "tiny"
TOKENIZER = transformers.AutoTokenizer.from_pretrained(FOLDER)
MESSAGE = [{"role": "user", "content": "12+7=?"}]
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 3, "b": 4}}}


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def sampled(model) -> tuple[list[list[float]], float]:
    """Scores of 8 completions for each of 256 dev items, and the share that reached the cap."""
    task = load("math")
    items = task.splits({"dev": 256}, 0)["dev"]
    prompts = TOKENIZER.apply_chat_template(
        [list(item.prompt) for item in items],
        add_generation_prompt=True,
        padding=True,
        return_tensors="pt",
        return_dict=True,
    )
    torch.manual_seed(0)
    with torch.no_grad():
        ids = model.generate(
            **prompts, do_sample=True, temperature=1.0, top_k=0, num_return_sequences=8, max_new_tokens=8
        )
    completions = ids[:, prompts.input_ids.shape[1] :]
    cut = (completions != TOKENIZER.eos_token_id).all(-1).float().mean().item()
    texts = TOKENIZER.batch_decode(completions, skip_special_tokens=True)
    scores = [task.verify(text, items[row // 8].answer, {}).score for row, text in enumerate(texts)]
    return [scores[row : row + 8] for row in range(0, len(scores), 8)], cut


def test_the_folder_is_small_and_in_bf16():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 4 * 2**20
    assert json.loads((FOLDER / "config.json").read_text())["dtype"] == "bfloat16"


def test_it_has_about_a_million_parameters(model):
    assert 1.0e6 < sum(parameter.numel() for parameter in model.parameters()) < 1.2e6


def test_the_model_and_its_tokenizer_have_one_vocabulary(model):
    assert model.config.vocab_size == len(TOKENIZER)
    assert (model.config.eos_token_id, model.config.pad_token_id) == (
        TOKENIZER.eos_token_id,
        TOKENIZER.pad_token_id,
    )
    assert TOKENIZER.pad_token_id != TOKENIZER.eos_token_id


@given(st.text())
def test_a_text_is_its_bytes_and_comes_back(text):
    if "<|" not in text:
        ids = TOKENIZER(text).input_ids
        assert ids == list(text.encode())
        assert TOKENIZER.decode(ids) == text


def test_a_prompt_is_short():
    ids = TOKENIZER.apply_chat_template(MESSAGE, add_generation_prompt=True, return_dict=False)
    assert TOKENIZER.decode(ids) == "<|user|>12+7=?<|end|><|assistant|>"
    assert len(ids) == 9


def test_the_template_renders_every_role_and_the_tools():
    messages = [
        {"role": "system", "content": "Be brief."},
        *MESSAGE,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "name": "add", "content": "19"},
    ]
    tools = [{"type": "function", "function": {"name": "add"}}]
    text = TOKENIZER.apply_chat_template(messages, tools=tools, tokenize=False)
    assert text == (
        '<|tools|>{"type": "function", "function": {"name": "add"}}<|end|><|system|>Be brief.<|end|>'
        '<|user|>12+7=?<|end|><|assistant|><|tool_call|>{"name": "add", "arguments": {"a": 3, "b": 4}}'
        "<|tool_call_end|><|end|><|tool|>19<|end|>"
    )


def test_an_unknown_role_is_refused():
    with pytest.raises(Exception, match="unknown role robot"):
        TOKENIZER.apply_chat_template([{"role": "robot", "content": "hi"}])


def test_a_turn_with_a_tool_call_is_parsed_back():
    prefix = TOKENIZER.apply_chat_template(MESSAGE, add_generation_prompt=True, return_dict=False)
    turn = '<|tool_call|>{"name": "add", "arguments": {"a": 3, "b": 4}}<|tool_call_end|><|end|>'
    parsed = TOKENIZER.parse_response(TOKENIZER(turn).input_ids, prefix=prefix)
    assert parsed["tool_calls"] == [CALL]


def test_its_sampled_accuracy_leaves_room_in_both_directions(sampled):
    groups, _ = sampled
    accuracy = sum(map(sum, groups)) / (8 * len(groups))
    assert 0.30 < accuracy < 0.42


def test_most_groups_of_eight_are_mixed(sampled):
    groups, _ = sampled
    assert sum(0 < sum(group) < 8 for group in groups) / len(groups) > 0.7


def test_it_ends_its_turns(sampled):
    _, cut = sampled
    assert cut < 0.01


@pytest.mark.slow
def test_trl_accepts_the_template_for_tools():
    from trl.chat_template_utils import is_chat_template_prefix_preserving, supports_tool_calling

    assert supports_tool_calling(TOKENIZER)
    assert is_chat_template_prefix_preserving(TOKENIZER)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learning_rate", "steps", "low", "high"),
    [(1e-4, 80, 0.08, 0.6), (1e-3, 25, -0.5, -0.25)],
    ids=["1e-4 learns", "1e-3 collapses"],
)
def test_the_learning_rate_decides_what_grpo_makes_of_it(learning_rate, steps, low, high):
    from experiments.tiny_model.check_rl import run

    report = run(FOLDER, learning_rate, steps)
    assert low < report["after"]["pooled"] - report["before"]["pooled"] < high
