"""LoRA: exact resumes, forks that go on with the adapter or merge it, references."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from harness.trainers.lora import base_of, load_adapter, save_adapter, save_merged

LORA = {"use_peft": True, "lora_r": 4, "lora_alpha": 8, "learning_rate": 1e-3}


def at(done, step, mode="weights"):
    return {"start": {"mode": mode, "node": "n001", "step": step, "path": str(done.checkpoint(step))}}


def adapter(done, step):
    return load_file(done.checkpoint(step) / "state" / "adapter.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def arguments():
    return LORA | {"beta": 0.05, "num_iterations": 2}


@pytest.fixture(scope="module")
def parent(run, arguments):
    return run(arguments=arguments, steps=6)


def test_lora_trains_its_adapter_and_saves_a_merged_model(parent):
    assert parent.result["status"] == "completed"
    assert parent.rows[-1]["kl_start"] > 0
    weights = load_file(parent.checkpoint(6) / "model.safetensors")
    assert not any("lora" in name or "base_layer" in name for name in weights)
    start = load_file(parent.checkpoint(2) / "model.safetensors")
    assert start.keys() == weights.keys()
    assert not same(start, weights)


def test_an_exact_resume_under_lora_is_bit_equal(run, parent, arguments):
    rest = run(arguments=arguments, steps=6, job=at(parent, 2, "exact"))
    assert rest.result["status"] == "completed"
    assert rest.result["start"]["logprob_gap"] == pytest.approx(0.0, abs=1e-6)
    assert same(adapter(parent, 6), adapter(rest, 6))
    for name in ("optimizer", "rng", "sampler"):
        one, other = (torch.load(done.checkpoint(6) / "state" / f"{name}.pt") for done in (parent, rest))
        assert str(one) == str(other)
    for key in ("grad_norm", "kl", "entropy", "ratio/max"):
        assert rest.series(key) == parent.series(key)[2:]


def test_a_fork_goes_on_with_the_parents_adapter_and_its_adam(run, parent, arguments):
    done = run(arguments=arguments | {"learning_rate": 5e-4}, steps=2, job=at(parent, 6))
    assert done.result["start"]["logprob_gap"] == pytest.approx(0.0, abs=1e-6)
    assert done.rows[0]["kl"] > 1e-6
    about = json.loads((done.checkpoint(2) / "state" / "training.json").read_text())
    assert about["adapter"]["base"].endswith("tiny")
    state = torch.load(done.checkpoint(2) / "state" / "optimizer.pt")["state"]
    assert float(state[0]["step"]) == 8


def test_another_rank_merges_and_begins_a_new_adapter(run, parent, arguments):
    changed = arguments | {"lora_r": 8}
    refused = run(arguments=changed, steps=2, job=at(parent, 6))
    assert "stages[0].fork.optimizer = 'keep'" in refused.result["reason"]
    assert "use 'reset'" in refused.result["reason"]
    done = run(arguments=changed, steps=2, job=at(parent, 6), fork={"optimizer": "reset"})
    assert done.result["start"]["logprob_gap"] == pytest.approx(0.0, abs=1e-5)
    # The reference is the study's base, not the merged model under the new adapter.
    assert done.rows[0]["kl"] == pytest.approx(done.result["start"]["kl_before_first_update"], rel=1.0)
    assert done.rows[0]["kl"] > 1e-6
    about = json.loads((done.checkpoint(2) / "state" / "training.json").read_text())
    assert about["adapter"]["base"] == str(parent.checkpoint(6))
    assert about["adapter"]["lora"]["lora_r"] == 8
    rest = run(
        arguments=changed,
        steps=4,
        job=at(done, 2, "exact"),
        fork={"optimizer": "reset"},
    )
    assert rest.result["status"] == "completed"
    assert rest.result["start"]["logprob_gap"] == pytest.approx(0.0, abs=1e-5)


def test_full_weights_go_on_from_a_merged_adapter(run, parent):
    done = run(steps=1, job=at(parent, 6), fork={"optimizer": "reset"})
    assert done.result["status"] == "completed"
    assert done.result["start"]["logprob_gap"] == pytest.approx(0.0, abs=1e-5)
    assert not (done.checkpoint(1) / "state" / "adapter.safetensors").exists()


def test_the_reference_may_be_the_parent_under_lora_too(run, parent, arguments):
    done = run(arguments=arguments, steps=1, job=at(parent, 6), fork={"reference": "parent"})
    assert done.rows[0]["kl"] == pytest.approx(0.0, abs=1e-6)


def test_a_temperature_changed_in_flight_reaches_the_base_under_the_adapter(run, job_value):
    value = job_value(arguments=LORA, steps=3)
    request = {"id": "r1", "kind": "set", "args": {"temperature": 0.5}}
    control = {"schema_version": 1, "seq": 1, "requests": [request]}
    from pathlib import Path

    (Path(value["output"]) / "control.json").write_text(json.dumps(control))
    done = run(value=value)
    assert done.rows[2]["entropy"] < 0.8 * done.rows[0]["entropy"]


def test_merging_is_the_sum_and_leaves_the_model_as_it_was(tmp_path):
    from peft import get_peft_model

    from harness.trainers.lora import LoraSpec
    from tests.harness.conftest import TINY

    torch.manual_seed(0)
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32), LoraSpec(4, 8).config()
    )
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.normal_(std=0.02)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    save_merged(model, tmp_path)
    assert same(before, dict(model.state_dict()))
    ids = torch.arange(12).reshape(2, 6)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    torch.testing.assert_close(merged(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-4)
    assert base_of(merged) is merged
    save_adapter(model, tmp_path)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_" in name:
                value.zero_()
    load_adapter(model, tmp_path / "adapter.safetensors")
    assert same(before, dict(model.state_dict()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lora_r": 8}, "stages[0].arguments.lora_r has no effect without use_peft = true"),
        ({"use_peft": True, "lora_r": 0}, "lora_r = 0 must be a whole number of at least 1"),
        ({"use_peft": True, "lora_dropout": 1.0}, "lora_dropout = 1.0 must be at least 0 and below 1"),
    ],
)
def test_wrong_arguments_of_an_adapter_are_refused_by_name(run, given, message):
    assert message in run(arguments=given).result["reason"]
