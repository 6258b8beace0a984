"""Training sets: JSONL in memory, parquet shards mapped, prompts that are too long left out."""

import pytest
from transformers import AutoTokenizer

from harness.tasks.api import Item
from harness.training_set import TrainingSet, write_shards
from tests.harness.conftest import TINY


@pytest.fixture
def shards(data, tmp_path, monkeypatch):
    """The training items as three parquet shards."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    items = list(TrainingSet.open(data / "train.jsonl"))
    paths = write_shards(tmp_path / "shards", iter(items), rows=40)
    assert [path.name for path in paths] == ["00000.parquet", "00001.parquet", "00002.parquet"]
    return tmp_path / "shards"


def test_shards_hold_the_items_of_the_jsonl_file(data, shards):
    mapped, plain = TrainingSet.open(shards), TrainingSet.open(data / "train.jsonl")
    assert list(mapped) == list(plain)
    assert list(mapped.prompt_ids) == list(plain.prompt_ids)
    assert mapped[3:5] == plain[3:5]
    mapped.remember([7])
    assert mapped.find(plain[7].id) == plain[7]
    with pytest.raises(KeyError):
        mapped.find(plain[8].id)


def test_a_job_on_shards_is_the_job_on_the_file(run, data, shards):
    plain = run(steps=2)
    job = {"data": {"train": str(shards), "probe": str(data / "probe.jsonl"), "manifest": ""}}
    mapped = run(steps=2, job=job)
    assert mapped.result["status"] == "completed"
    for key in ("reward", "grad_norm", "prompts/visited"):
        assert mapped.series(key) == plain.series(key)


def test_prompts_that_are_too_long_are_left_out(data, shards):
    tokenizer = AutoTokenizer.from_pretrained(TINY)

    def length(item):
        text = tokenizer.apply_chat_template(list(item.prompt), tokenize=False, add_generation_prompt=True)
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    plain = TrainingSet.open(data / "train.jsonl")
    lengths = sorted({length(item) for item in plain})
    limit = lengths[0]
    kept = plain.filtered(tokenizer, limit)
    assert 0 < len(kept) < len(plain)
    assert list(kept) == [item for item in plain if length(item) <= limit]
    assert list(TrainingSet.open(shards).filtered(tokenizer, limit)) == list(kept)
    with pytest.raises(ValueError, match="max_prompt_length = 1: every prompt is longer"):
        plain.filtered(tokenizer, 1)


def test_a_job_filters_by_max_prompt_length(run):
    done = run(arguments={"max_prompt_length": 1})
    assert "stages[0].arguments.max_prompt_length = 1: every prompt is longer" in done.result["reason"]


def test_what_is_no_training_set_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no folder of \.parquet shards"):
        TrainingSet.open(tmp_path)
    write_shards(tmp_path / "one", [Item.of([{"role": "user", "content": "x"}], "1", {"k": [1, None]})])
    assert TrainingSet.open(tmp_path / "one" / "00000.parquet")[0].columns == {"k": [1, None]}
