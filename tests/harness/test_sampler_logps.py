"""Log-probs of what samples, without vLLM; a mismatch between sampler and trainer is seen and refused."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from harness.trainers.capture import LogpCapture
from tests.harness.conftest import TINY

GAP = "before the first update the sampler's log-probs differ from the trainer's"


def mismatch(kind, amount=1.0):
    return [
        {
            "point": "rollouts",
            "ref": "hooks/sampler_mismatch.py:SamplerMismatch",
            "params": {"kind": kind, "amount": amount},
        }
    ]


def test_captured_log_probs_are_those_of_a_forward_pass_and_change_no_token():
    model = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32).eval()
    ids = torch.tensor([[3, 4, 5, 6], [0, 0, 7, 8]])
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    options = {"do_sample": True, "temperature": 0.7, "max_new_tokens": 5, "top_k": 0, "eos_token_id": -1}
    torch.manual_seed(0)
    plain = model.generate(ids, attention_mask=mask, **options)
    torch.manual_seed(0)
    capture = LogpCapture(0.7)
    with capture.on(model):
        seen = model.generate(ids, attention_mask=mask, **options)
    assert torch.equal(plain, seen)
    completions = seen[:, 4:].tolist()
    whole = torch.cat([mask, torch.ones(2, 5, dtype=torch.long)], 1)
    with torch.no_grad():
        logits = model(seen, attention_mask=whole, position_ids=(whole.cumsum(1) - 1).clamp(min=0)).logits
    expected = torch.log_softmax(logits[:, 3:-1] / 0.7, -1).gather(-1, seen[:, 4:, None])[..., 0]
    torch.testing.assert_close(torch.tensor(capture.of(completions)), expected, atol=1e-5, rtol=1e-4)
    assert [len(row) for row in capture.of([completions[0][:2], completions[1]])] == [2, 5]
    assert not model._forward_hooks


def test_recording_them_changes_nothing_and_shows_no_gap(run):
    plain = run(steps=2)
    done = run(steps=2, arguments={"sampler_logps": True})
    assert done.series("grad_norm") == plain.series("grad_norm")
    assert done.rows[0]["sampler/gap_mean"] < 1e-5
    assert done.rows[0]["sampler/gap_p99"] < 1e-4
    assert done.rows[0]["sampler/correlation"] > 0.999
    assert "sampler/gap_mean" not in plain.rows[0]


def test_an_adapters_log_probs_are_recorded_too(run):
    adapter = {"use_peft": True, "lora_r": 4, "learning_rate": 1e-3}
    done = run(steps=2, arguments={"sampler_logps": True} | adapter)
    assert max(done.series("sampler/gap_mean")) < 1e-5
    stale = run(steps=2, arguments=adapter, hooks=mismatch("stale"))
    assert stale.result["failure"]["type"] == "SamplerGapError"


def test_a_hook_that_needs_them_has_them(run, module):
    seen = []

    class Asks:
        needs = frozenset({"sampler_logps"})

        def tokens(self, inputs):
            gap = (inputs.sampler_logps_B_T - inputs.logps_B_T).abs() * inputs.mask_B_T
            seen.append(gap.max().item())
            return inputs.advantages[:, None].expand_as(inputs.logps_B_T)

    ref = module("hooks", Asks=Asks)
    run(steps=1, hooks=[{"point": "advantages", "ref": f"{ref}:Asks", "params": {}}])
    assert max(seen) < 1e-4


@pytest.mark.parametrize(("kind", "amount"), [("temperature", 0.5), ("stale", 1.0)])
def test_an_injected_mismatch_above_a_twentieth_fails_the_node_before_its_first_update(run, kind, amount):
    done = run(steps=2, hooks=mismatch(kind, amount))
    assert done.result["status"] == "failed"
    assert done.result["failure"]["type"] == "SamplerGapError"
    assert GAP in done.result["reason"]
    assert done.rows == []


def test_a_small_mismatch_of_types_is_recorded_and_let_pass(run):
    done = run(steps=2, hooks=mismatch("dtype"))
    assert done.result["status"] == "completed"
    assert 1e-4 < done.rows[0]["sampler/gap_mean"] < 0.05
    assert done.rows[0]["sampler/gap_p99"] > done.rows[0]["sampler/gap_mean"]
    same = run(steps=2, hooks=mismatch("none"))
    assert same.rows[0]["sampler/gap_mean"] < 1e-5


def test_stale_weights_are_seen_as_a_growing_gap(run, module):
    from harness.hooks.sampler_mismatch import SamplerMismatch

    class LateStale(SamplerMismatch):
        """In step with the trainer at first; from the second batch on it keeps the first batch's weights."""

        def _sampler(self, policy):
            model = super()._sampler(policy)
            return None if len(self._seen) == 1 else model

        def draw(self, inputs):
            self._seen = [*getattr(self, "_seen", []), inputs.step]
            return super().draw(inputs)

    ref = module("hooks", LateStale=LateStale)
    hooks = [{"point": "rollouts", "ref": f"{ref}:LateStale", "params": {"kind": "stale"}}]
    done = run(steps=3, arguments={"learning_rate": 1e-3}, hooks=hooks)
    gaps = done.series("sampler/gap_mean")
    assert gaps[0] < 1e-5
    assert min(gaps[1:]) > 0.01


def test_an_unknown_kind_of_mismatch_is_refused(run):
    done = run(steps=1, hooks=mismatch("typo"))
    assert "kind = 'typo' must be one of none, dtype, temperature, stale" in done.result["reason"]
