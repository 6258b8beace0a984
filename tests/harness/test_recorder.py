"""What the recorder computes and what it catches."""

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.contract import JobSpec
from harness.heartbeat import Heartbeat
from harness.probe import kl_estimate, logprob_gap
from harness.recorder import Recorder
from harness.statistics import GenerationBatch, batch_metrics, distinct, group_shares, repetition


def batch(**changed):
    values = {
        "prompts": ["p"] * 4, "prompt_ids": ["a", "a", "b", "b"], "completions": ["x"] * 4,
        "completion_ids": [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]], "stopped": [True, True, True, False],
        "rewards": [1.0, 0.0, 1.0, 1.0], "components": {"accuracy": [1.0, 0.0, 1.0, 1.0]},
        "advantages": [1.0, -1.0, 0.0, 0.0], "group_size": 2, "verifier": "accuracy",
    }  # fmt: skip
    return GenerationBatch(**(values | changed))


def test_groups_are_all_right_all_wrong_or_mixed():
    shares = group_shares(np.array([[1.0, 1.0], [0.0, math.nan], [0.0, 1.0], [0.5, 0.5]]))
    assert shares == {"groups/all_correct": 0.25, "groups/all_wrong": 0.25, "groups/mixed": 0.5}


def test_group_variance_and_advantages_are_those_of_the_batch():
    row = batch_metrics(batch())
    assert row["groups/reward_variance"] == pytest.approx((0.25 + 0.0) / 2)
    assert (row["advantages/mean"], row["advantages/std"]) == (0.0, pytest.approx(math.sqrt(0.5)))
    assert (row["eos_rate"], row["lengths/p50"]) == (0.75, 2.5)


def test_a_batch_without_a_verifier_has_no_shares_of_right_groups():
    assert "groups/mixed" not in batch_metrics(batch(verifier=None))


def test_distinct_and_repetition_count_ngrams():
    assert distinct([[1, 2, 1, 2]], 2) == pytest.approx(2 / 3)
    assert repetition([[1, 1, 1, 1, 1], [1, 2, 3]], 3) == pytest.approx((2 / 3 + 0) / 2)
    assert (distinct([[1]], 2), repetition([[1]], 3)) == (1.0, 0.0)


def test_the_kl_estimate_is_zero_for_equal_policies_and_exact_for_known_ones():
    half, mask = torch.log(torch.tensor([[0.5, 0.5]])), torch.ones(1, 2)
    assert kl_estimate(half, half, mask) == 0.0
    # Both outcomes of a fair coin once: the mean of k3 over them is KL(fair || biased) exactly.
    biased = torch.log(torch.tensor([[0.9, 0.1]]))
    exact = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert kl_estimate(half, biased, mask) == pytest.approx(exact, rel=1e-5)


def test_padding_does_not_count_in_the_logprob_gap():
    one, other = torch.tensor([[-1.0, -9.0]]), torch.tensor([[-1.5, -2.0]])
    assert logprob_gap(one, other, torch.tensor([[1.0, 0.0]])) == pytest.approx(0.5)


@pytest.fixture
def recorder(job_value):
    job = JobSpec.of(job_value())
    with Heartbeat(Path(job.output), job.job_id) as heart:
        yield Recorder(job, heart, time.time()), Path(job.output) / "metrics.jsonl"


def test_a_nan_loss_is_in_the_row_though_trl_hides_it(recorder):
    rec, path = recorder
    rec.begin_micro_step()
    rec.loss(math.nan)
    rec.write(1, 0, rec.end_step(), {"loss": 0.01, "grad_norm": math.inf}, {})
    row = json.loads(path.read_text())
    assert (row["loss"], row["grad_norm"], row["nonfinite"]) == ("NaN", "Infinity", 2)


def test_nonfinite_values_are_counted_in_their_own_step_only(recorder):
    rec, path = recorder
    rec.batch(1, batch(components={"accuracy": [1.0, 0.0, 1.0, 1.0], "x": [math.inf, math.nan, 0.0, 0.0]}), 0)
    rec.write(1, 0, 0.1, {}, {})
    rec.write(2, 0, 0.1, {}, {})
    assert [json.loads(line)["nonfinite"] for line in path.read_text().splitlines()] == [1, 0]


def test_a_step_without_generation_lacks_the_keys_of_a_generation_batch(recorder):
    rec, path = recorder
    rec.batch(1, batch(), 0)
    rec.write(1, 0, 0.1, {}, {})
    rec.write(2, 0, 0.1, {}, {})
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert "eos_rate" in first
    assert "eos_rate" not in second


def test_generate_and_reward_seconds_are_no_train_seconds(recorder):
    rec, path = recorder
    rec.begin_micro_step()
    with rec.timed("generate"):
        time.sleep(0.03)
    rec.write(1, 0, rec.end_step(), {}, {})
    row = json.loads(path.read_text())
    assert row["time/generate_s"] >= 0.03
    assert row["time/train_s"] < 0.02


def test_a_nan_reward_of_a_shaping_function_is_counted(run, module):
    ref = module("rewards", nan=lambda completions, **_: [math.nan] * len(completions))
    done = run(steps=1, rewards=[{"ref": "verifier"}, {"ref": f"{ref}:nan"}])
    assert done.rows[0]["nonfinite"] == 32
    assert done.result["status"] == "completed"


def test_weights_that_become_nan_fail_the_job_and_not_the_machine(run, module):
    from harness.hooks.api import LossTerm

    class Explode:
        def term(self, inputs):
            return LossTerm(inputs.logps_B_T.sum() * math.nan, {})

    ref = module("hooks", Explode=Explode)
    done = run(hooks=[{"point": "loss", "ref": f"{ref}:Explode"}])
    assert done.result["status"] == "failed"
    assert done.rows[0]["loss"] == "NaN"
    assert done.rows[0]["nonfinite"] >= 2
