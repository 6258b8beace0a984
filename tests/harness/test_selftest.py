"""The self-tests: they hold for the shipped model, and each one sees the fault that it is for."""

import json

import pytest
import torch

from harness.scoring import Scoring
from harness.selftest import SelfTest, main, model_job
from harness.trainers.grpo import GrpoTrainer
from tests.harness.conftest import TINY


@pytest.fixture
def selftest(tmp_path):
    return SelfTest(model_job(TINY, tmp_path), tmp_path)


def test_all_checks_hold_for_the_shipped_model(capsys):
    assert main([str(TINY), "--json"]) == 0
    checks = json.loads(capsys.readouterr().out.splitlines()[-1])["checks"]
    assert [(one["name"], one["ok"]) for one in checks] == [
        ("accumulation", True),
        ("padding", True),
        ("end_token", True),
        ("reward_placement", True),
        ("zero_mean", True),
        ("constant_reward", True),
    ]


def test_a_loss_that_is_not_scaled_for_accumulation_is_seen(selftest, monkeypatch):
    plain = GrpoTrainer._compute_loss
    monkeypatch.setattr(
        GrpoTrainer,
        "_compute_loss",
        lambda self, model, inputs: plain(self, model, inputs) * self.args.steps_per_generation,
    )
    assert not selftest.accumulation().ok


def test_padding_that_leaks_is_seen(selftest, monkeypatch):
    plain = GrpoTrainer._get_per_token_logps_and_entropies

    def leaks(self, model, input_ids, attention_mask, *arguments, **keywords):
        if self._token_budget is None:
            attention_mask = torch.ones_like(attention_mask)
            input_ids = torch.cat([input_ids[:, 1:], input_ids[:, -1:]], 1)
        return plain(self, model, input_ids, attention_mask, *arguments, **keywords)

    monkeypatch.setattr(GrpoTrainer, "_get_per_token_logps_and_entropies", leaks)
    assert not selftest.padding().ok


def test_a_mask_without_the_end_token_is_seen(selftest, monkeypatch):
    plain = GrpoTrainer._generate_and_score_completions

    def short(self, inputs):
        output = plain(self, inputs)
        last = output["completion_mask"].sum(1) - 1
        output["completion_mask"][torch.arange(len(last)), last] = 0
        return output

    monkeypatch.setattr(GrpoTrainer, "_generate_and_score_completions", short)
    check = selftest.end_token()
    assert not check.ok
    assert "tokens count" in check.detail


def test_rewards_beside_other_completions_are_seen(selftest, monkeypatch):
    plain = Scoring.score
    monkeypatch.setattr(
        Scoring, "score", lambda self, *given: (*(found := plain(self, *given))[:3], found[3].roll(1, 0))
    )
    assert not selftest.reward_placement().ok


def test_advantages_that_are_not_centred_are_seen(selftest, monkeypatch):
    plain = Scoring.advantages

    def shifted(self, trainer, advantages, *scored):
        return plain(self, trainer, advantages + 0.1, *scored)

    monkeypatch.setattr(Scoring, "advantages", shifted)
    assert not selftest.zero_mean().ok
    assert not selftest.constant_reward().ok


def test_a_job_that_fails_is_a_check_that_does_not_hold(selftest):
    selftest._job["stages"][0]["arguments"]["num_generations"] = 7
    found = selftest.run()
    assert not any(check.ok for check in found)
    assert "must be a multiple of num_generations = 7" in found[0].detail


def test_a_path_that_is_no_job_is_refused(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
