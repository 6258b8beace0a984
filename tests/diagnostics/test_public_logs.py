"""Kill rules replayed on public runs that lie beside the checkout; skipped where they do not."""

import csv
import json
from pathlib import Path

import pytest

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.triage import diagnose, first_kill

LOGS = Path(__file__).resolve().parents[3] / "shared" / "logs"

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the public logs are not beside the checkout")

COLLAPSED = ("exp1a_rho1.00_seed42", "exp1a_rho1.00_seed43", "exp2_adabalance_seed43", "exp1a_rho0.10_seed43")
RATE_TOO_HIGH = ("wordle4070_lr5e-3_entropy_to_zero", "wordle4070_lr5e-3_cap16_reward0")
UNDER_TRAINED = ("xling_a3_enlang_42", "xling_reproduce_openrs_rs2_42", "xling_a2_vi_42")


def read(name):
    path = next(path for path in sorted(LOGS.rglob("*")) if path.name.startswith(name))
    if path.suffix == ".csv":
        with path.open() as stream:
            rows = [
                {key: float(value) for key, value in row.items() if value} for row in csv.DictReader(stream)
            ]
        return Metrics({**row, "step": int(row["step"])} for row in rows)
    if path.suffix == ".json":
        value = json.loads(path.read_text())
        return Metrics(value["log_history"] if isinstance(value, dict) else value)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    every = 1 if "step" in rows[0] else 5
    return Metrics({"step": every * index, **row} for index, row in enumerate(rows, start=1))


def names(pattern):
    return sorted(path.name.removesuffix(".jsonl") for path in LOGS.glob(pattern))


@pytest.mark.parametrize("name", [*COLLAPSED, *RATE_TOO_HIGH])
def test_a_public_run_that_collapsed_is_killed(name):
    context = {"prompts_per_step": 2} if name in RATE_TOO_HIGH else {}
    step, finding = first_kill(read(name), context, 5)
    assert finding.kind == "collapse"
    assert step <= 165


def test_no_public_run_that_did_not_collapse_is_killed():
    runs = [name for name in names("grpodyn/exp*.jsonl") if name not in COLLAPSED]
    runs += [
        "gemma3",
        "unsloth",
        "wordle_lara",
        "wordle4070_lr1e-5_best",
        "wordle4070_lr5e-5_learning_ok",
        "recgrpo_cap1",
    ]
    runs += ["finqa", "wordle4070_lr5e-5_long_kl_climb", "wordle4070_lr5e-5_run300", "chaos", *UNDER_TRAINED]
    assert len(runs) >= 36
    assert [name for name in runs if first_kill(read(name), {}, 5)] == []
    small = (
        "wordle4070_lr5e-5_long_kl_climb",
        "wordle4070_lr5e-5_run300",
        "wordle4070_lr5e-5_learning_ok",
        "wordle4070_lr1e-5_best",
    )
    assert [name for name in small if first_kill(read(name), {"prompts_per_step": 2}, 5)] == []


@pytest.mark.parametrize("name", UNDER_TRAINED)
def test_a_public_run_in_which_nothing_moved_is_called_under_trained(name):
    assert [finding.kind for finding in diagnose(read(name), {})] == ["under_training"]


def test_a_public_run_that_froze_slowly_is_warned_about_and_not_killed():
    metrics = read("wordle4070_lr5e-4_mode_collapse")
    assert "entropy_collapse" in {finding.kind for finding in diagnose(metrics, {"prompts_per_step": 2})}
    assert first_kill(metrics, {"prompts_per_step": 2}, 5) is None
