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
from harness.loss_statistics import LossStatistics, gap_metrics, ratio_metrics
from harness.probe import kl_estimate, logprob_gap
from harness.recorder import Recorder
from harness.rollouts import kept_rows
from harness.statistics import (
    GenerationBatch,
    batch_metrics,
    compression,
    disagreement,
    distinct,
    group_shares,
    repetition,
    script_switches,
    tag_shares,
)
from harness.trainers.history import PromptHistories


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


def test_lengths_correlate_with_each_component_and_with_the_reward():
    row = batch_metrics(
        batch(components={"accuracy": [1.0, 0.0, 1.0, 1.0], "long": [1.0, 2.0, 3.0, math.nan]})
    )
    # Lengths 1 2 3 4 against 1 0 1 1: covariance 0.125, deviations sqrt(1.25) and sqrt(0.1875).
    expected = 0.125 / math.sqrt(1.25 * 0.1875)
    assert row["lengths/correlation/accuracy"] == pytest.approx(expected)
    assert row["lengths/correlation"] == pytest.approx(expected)
    assert row["lengths/correlation/long"] == pytest.approx(1.0)
    assert "lengths/correlation/flat" not in batch_metrics(batch(components={"accuracy": [1.0] * 4}))
    assert row["tokens/generated"] == 10


def test_shares_of_advantage_by_tag():
    shares = tag_shares(["new", "new", "old", ""], np.array([1.0, -1.0, 2.0, 0.0]))
    assert shares == {"advantages/share/new": 0.5, "advantages/share/old": 0.5}
    assert tag_shares(["new"], np.zeros(1)) == {"advantages/share/new": 0.0}


def test_parse_rate_and_second_verifier():
    row = batch_metrics(batch(parsed=[True, True, False, True], second=[1.0, 1.0, math.nan, 0.0]))
    # Scores 1 0 1 1 against 1 1 - 0: two of three differ.
    assert row["parse_rate"] == 0.75
    assert row["verifier/disagreement"] == pytest.approx(2 / 3)
    assert disagreement(np.array([math.nan]), np.array([1.0])) == 0.0


def test_repeated_text_compresses_and_scripts_that_change_are_counted():
    import zlib

    assert compression(["ab" * 500]) < 0.05
    assert compression(["ab", "c"]) == len(zlib.compress(b"ab\nc", 6)) / 4
    assert compression([""]) == 1.0
    # Latin, Cyrillic, Latin: two changes; digits and spaces belong to no script.
    assert script_switches(["so \u043f\u0440 1 we", "only latin"]) == 1.0
    assert script_switches(["caf\u00e9 and \u6570\u5b66"]) == 1.0
    assert script_switches(["plain", "text"]) == 0.0


def test_ratios_and_gaps_of_known_tokens():
    ratios = ratio_metrics(np.array([0.5, 1.0, 1.0, 1.5, 2.0]))
    assert (ratios["ratio/p50"], ratios["ratio/max"]) == (1.0, 2.0)
    assert ratios["ratio/p98"] == pytest.approx(1.5 + 0.92 * 0.5)
    assert ratios["ratio/variance"] == pytest.approx((0.25 + 0 + 0 + 0.25 + 1) / 5)
    gaps = gap_metrics(np.array([-1.0, -2.0, -3.0]), np.array([-1.5, -2.5, -3.5]))
    assert gaps["sampler/gap_mean"] == pytest.approx(0.5)
    assert gaps["sampler/gap_p99"] == pytest.approx(0.5)
    assert gaps["sampler/correlation"] == pytest.approx(1.0)
    assert "sampler/correlation" not in gap_metrics(np.array([-1.0, -1.0]), np.array([-1.0, -2.0]))


def test_tokens_at_loss_time_are_counted_by_mask_and_place():
    statistics = LossStatistics()
    logps = torch.log(torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.5, 0.1, 0.1, 0.1]]))
    old = torch.log(torch.tensor([[0.25, 0.5, 0.5, 0.5], [0.5, 0.9, 0.9, 0.9]]))
    sampler = logps + torch.tensor([[0.1, 0.1, 0.1, 0.1], [0.5, 9.0, 9.0, 9.0]])
    entropies = torch.tensor([[1.0, 2.0, 3.0, 4.0], [7.0, 9.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]])
    assert statistics.add(logps, old, sampler, entropies, mask) == pytest.approx((4 * 0.1 + 0.5) / 5)
    row = statistics.row()
    assert row["tokens/trained"] == 5
    assert (row["ratio/p50"], row["ratio/max"]) == (pytest.approx(1.0), pytest.approx(2.0))
    # The second completion has one token, which is in its first quarter.
    assert [row[f"entropy/q{place}"] for place in (1, 2, 3, 4)] == [4.0, 2.0, 3.0, 4.0]
    assert statistics.row() == {"tokens/trained": 0.0}
    assert statistics.add(logps, None, None, None, mask) is None


def test_solved_prompts_are_gained_and_lost():
    histories = PromptHistories(["a", "b"])
    # Pass rates of a and b: 1/2 and 1; then 0 and 1; then 1 and 0.
    first = histories.add(batch())
    assert first == {"prompts/visited": 2, "prompts/pass_rate": 0.75, "prompts/solved": 1.0}
    second = histories.add(batch(components={"accuracy": [0.0, 0.0, 1.0, 1.0]}))
    assert (second["prompts/solved"], second["prompts/gained"], second["prompts/lost"]) == (0.5, 0.0, 0.5)
    third = histories.add(batch(components={"accuracy": [1.0, 1.0, 0.0, 0.0]}))
    assert (third["prompts/pass_rate"], third["prompts/gained"], third["prompts/lost"]) == (0.5, 0.5, 0.5)
    again = PromptHistories(["b", "a"])
    again.load_state_dict(histories.state_dict())
    assert again.by_index[1] == histories.by_index[0]
    assert again.add(batch())["prompts/solved"] == 1.0


def test_of_a_large_batch_whole_groups_are_kept_at_random():
    assert kept_rows(1, 8, 2, 8) == list(range(8))
    kept = kept_rows(1, 100, 4, 10)
    assert len(kept) == 8
    assert kept == kept_rows(1, 100, 4, 10)
    assert kept != kept_rows(2, 100, 4, 10)
    assert all(place % 4 == one % 4 for place, one in enumerate(kept))
    assert len(kept_rows(1, 100, 4, 1)) == 4
    counts = np.zeros(25)
    for step in range(2000):
        counts[[row // 4 for row in kept_rows(step, 100, 4, 10)[::4]]] += 1
    assert abs(counts / 2000 - 2 / 25).max() < 0.03


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


def test_rollouts_hold_token_ids_masks_and_log_probs_of_the_sampler(run):
    import pyarrow.parquet as pq

    done = run(steps=1, arguments={"sampler_logps": True})
    rows = pq.read_table(done.folder / "rollouts" / "1.parquet").to_pylist()
    assert len(rows) == 32
    for row in rows:
        assert len(row["token_ids"]) == row["tokens"] == len(row["mask"])
        assert set(row["mask"]) == {1}
        assert row["logp_mean"] == pytest.approx(row["sampler_logp_mean"], abs=1e-4)
        assert row["tag"] is None


def test_a_job_records_ratios_entropies_by_place_and_churn(run):
    rows = run(steps=2, arguments={"num_iterations": 2}).rows
    for row in rows:
        assert row["tokens/trained"] > 0
        assert row["entropy/q1"] > 0
    assert rows[0]["ratio/max"] == pytest.approx(1.0, abs=1e-4)
    assert rows[1]["ratio/max"] > 1.001
    assert rows[0]["prompts/visited"] == 4
    quarters = [rows[0][key] for key in rows[0] if key.startswith("entropy/q")]
    assert min(quarters) <= rows[0]["entropy"] <= max(quarters)
