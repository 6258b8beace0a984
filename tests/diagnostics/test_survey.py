"""What the survey says of runs that somebody else made."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotrainer.bench.public_logs import truth_of
from autotrainer.diagnostics.readers.keys import normalised
from autotrainer.diagnostics.readers.run import _run, read_runs
from autotrainer.diagnostics.survey.survey import survey
from autotrainer.testing.runs import collapsed, run
from autotrainer.tree.finding import Severity

LOGS = Path(__file__).resolve().parents[3] / "shared" / "logs"
public = pytest.mark.skipif(not LOGS.is_dir(), reason="the public logs are not beside the checkout")


def of(rows: list[dict], **context):
    return survey(_run("rows", [normalised(row) for row in rows]), context)


def worst(found, count: int = 3) -> list[str]:
    return [finding.pathology for finding in found.findings][:count]


def made(metrics, **context):
    return of(metrics.rows, **context)


def test_a_collapse_is_named_with_the_step_of_its_kill():
    found = made(collapsed(onset=10))
    assert found.verdict == "findings"
    assert worst(found)[0] == "P12"
    assert found.kill is not None


def test_a_healthy_run_is_healthy_and_not_killed():
    found = made(run(80))
    assert (found.verdict, found.kill) == ("healthy", None)
    assert all(finding.severity is Severity.INFO for finding in found.findings)


SHORT = {
    "P01": [{"reward": 3.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0, "loss": 0.0, "grad_norm": 0.0}],
    "P02": [{"rollout/raw_reward": 0.0, "rollout/truncated": 0.1, "rollout/response_lengths": 900.0}],
    "P03": [
        {"step": s, "reward": 0, "completions/clipped_ratio": 0.9, "completions/mean_length": 256}
        for s in (1, 2, 3)
    ],
    "P04": [
        {"step": s, "reward": 0.05, "completions/clipped_ratio": 1.0, "completions/mean_terminated_length": 0}
        for s in (1, 2)
    ],
    "P14": [{"step": 83, "actor/pg_loss": "nan", "actor/grad_norm": "nan", "critic/score/mean": -1.0}],
    "P16": [{"step": 1, "ratio/mean": 2.0, "reward": 0.3}],
    "P20": [
        {
            "step": 1,
            "critic/vf_explained_var": -72.3,
            "critic/vf_loss": "nan",
            "critic/score/mean": 0.6,
            "actor/grad_norm": 9.8,
        }
    ],
    "P23": [{"step": s, "reward": 0.2, "loss": 0.1, "ratio/max": r} for s, r in ((1, 1.0), (2, 40.0))],
    "P27": [{"step": 1, "kl": 0.4, "reward": 0.3}],
    "P28": [{"reward": 0.64, "reward_std": 0.15, "frac_reward_zero_std": 0.4, "grad_norm": 0.0, "kl": 0.0}],
}


@pytest.mark.parametrize("pathology", sorted(SHORT))
def test_a_few_pasted_rows_are_enough_where_they_are_clear(pathology):
    assert pathology in worst(of(SHORT[pathology]))


LONG = {
    "P05": lambda i: {"reward": 0.5 - 0.004 * i, "completions/mean_length": 200 + 12 * i, "completions/clipped_ratio": min(1, 0.02 * i)},
    "P06": lambda i: {"reward": 0.3, "completions/mean_length": 400 - 7 * i, "completions/clipped_ratio": 0.0},
    "P07": lambda i: {"reward": 0.2 + 0.01 * i, "eval_accuracy": 0.5 - 0.006 * i},
    "P09": lambda i: {"reward": 0.3, "entropy": max(0.001, 0.9 - 0.03 * i), "kl": 0.2},
    "P10": lambda i: {"reward": max(0.0, 0.8 - 0.02 * i), "entropy": 0.2 + 0.08 * i, "kl": 0.1},
    "P11": lambda i: {"reward": 0.6 - 0.005 * i, "kl": 0.001 * 1.25**i, "entropy": 0.5},
    "P13": lambda i: {"reward": 0.3 + 0.01 * (i % 3), "kl": 2e-4, "grad_norm": 0.005},
    "P15": lambda i: {"reward": 0.5 - 0.004 * i, "sampling/sampling_logp_difference/mean": 0.01 + 0.002 * i},
    "P18": lambda i: {"reward": 0.5 - 0.004 * i, "staleness": 2.5, "kl": 0.001 * 1.15**i},
    "P25": lambda i: {"reward": 0.4, "num_turns": max(2.0, 4.0 - 0.1 * i)},
}  # fmt: skip


@pytest.mark.parametrize("pathology", sorted(LONG))
def test_what_develops_over_a_run_is_named(pathology):
    assert pathology in worst(of([{"step": i, **LONG[pathology](i)} for i in range(1, 51)]))


def test_a_dead_and_a_dominating_reward_part_are_told_apart():
    dead = [
        {
            "step": i,
            "reward": 0.2 + 0.01 * i,
            "reward_std": 0.2,
            "rewards/format/mean": 0.0,
            "rewards/correct/mean": 0.2 + 0.01 * i,
        }
        for i in range(1, 30)
    ]
    assert "P08" in worst(of(dead))
    assert of(dead).verdict == "healthy"
    taken = [
        {
            "step": i,
            "reward": 0.5 + 0.01 * i,
            "rewards/format_reward": 0.3 + 0.02 * i,
            "rewards/accuracy_reward": 0.2 - 0.005 * i,
        }
        for i in range(1, 30)
    ]
    assert worst(of(taken))[0] == "P08"
    fallback = [
        {
            "step": i,
            "reward": 1.3,
            "reward_std": 0.1,
            "rewards/accuracy_reward": 0.5,
            "rewards/style": 0.8 + 0.01 * i,
        }
        for i in range(1, 10)
    ]
    assert "P02" in worst(of(fallback))


@pytest.mark.parametrize(
    "rows",
    [
        [
            {
                "loss": -0.03,
                "grad_norm": 0.006,
                "reward": 1.5,
                "reward_std": 0.2,
                "kl": "NaN",
                "clip_ratio/low_mean": "NaN",
            }
        ],
        [
            {
                "loss": 0.08,
                "grad_norm": 0.12,
                "reward": 0.5,
                "reward_std": 0.3,
                "frac_reward_zero_std": 0.0,
                "clip_ratio/region_mean": 0.0,
            }
        ],
        [
            {"step": i, "loss": 0.0, "reward": -17 + i, "reward_std": 1.5, "kl": 1e-4 * i}
            for i in range(1, 12)
        ],
    ],
)
def test_what_only_looks_wrong_is_no_finding(rows):
    found = of(rows)
    assert found.verdict == "healthy"
    assert "P30" in worst(found)


def test_too_little_is_cannot_tell_with_what_to_log():
    found = of([{"step": 1, "reward": 0.3, "kl": 0.001}])
    assert found.verdict == "cannot_tell"
    assert any("probe/accuracy" in advice for advice in found.log_next)
    assert "entropy" in found.missing


def test_the_answer_to_programs_has_the_promised_keys_and_exit_codes(cli, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in collapsed(onset=10).rows))
    ended = cli("diagnose", "run.jsonl", "--json", "--html", "page.html")
    assert ended.code == 1
    found = json.loads(ended.out)
    assert found["verdict"] == "findings"
    assert found["kill"].keys() == {"stop", "step", "rule"}
    assert found["kill"]["stop"] is True
    assert {"format", "steps", "missing_keys", "findings"} <= found.keys()
    assert {"class", "severity", "onset_step", "confidence", "evidence", "fixes", "skills"} <= found[
        "findings"
    ][0].keys()
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert "learning rate far too high" in page.lower()
    path.write_text("\n".join(json.dumps(row) for row in run(80).rows))
    assert cli("diagnose", "run.jsonl").code == 0
    path.write_bytes(b"\x00\x01")
    ended = cli("diagnose", "run.jsonl")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)


def test_a_page_takes_nothing_from_a_log_for_markup(cli, tmp_path):
    rows = [
        {
            "step": i,
            "reward": 0.2,
            "reward_std": 0.1,
            "rewards/<script>alert(1)</script>/mean": 0.5,
            "rewards/b/mean": 0.1 * i,
        }
        for i in range(1, 20)
    ]
    (tmp_path / "run.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    cli("diagnose", "run.jsonl", "--html", "page.html")
    assert "<script>alert" not in (tmp_path / "page.html").read_text()


def test_ten_thousand_steps_take_no_torch_and_little_time(tmp_path):
    rows = run(10_000, reward=0.5).rows
    (tmp_path / "long.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    code = (
        "import sys, time; from autotrainer.cli.app import invoke; t = time.perf_counter(); "
        f"invoke(['diagnose', {str(tmp_path / 'long.jsonl')!r}, '--json']); "
        "sys.stderr.write(f'{time.perf_counter() - t} {\"torch\" in sys.modules}')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, torch = ended.stderr.split()[-2:]
    assert torch == "False"
    assert float(seconds) < 20  # the figure of two seconds is measured by the benchmark, on a quiet machine


@public
def test_public_logs_get_their_class_among_the_three_worst_and_healthy_ones_none():
    hits, started = [], time.perf_counter()
    for path in sorted(LOGS.rglob("*")):
        truth = truth_of(path.name) if path.is_file() else None
        if truth is None:
            continue
        found = survey(read_runs(path)[-1])
        healthy = "H" in truth
        hits.append((found.verdict == "healthy" if healthy else bool(set(worst(found)) & truth), path.name))
        if healthy:
            assert found.kill is None, path.name
    assert len(hits) >= 45
    assert sum(ok for ok, _ in hits) >= 0.95 * len(hits), [name for ok, name in hits if not ok]
    assert time.perf_counter() - started < 120


@public
def test_pasted_snippets_get_their_class():
    hits = total = 0
    for line in (LOGS / "issue_snippets_open.jsonl").read_text().splitlines():
        case = json.loads(line)
        ids = set(re.findall(r"P\d\d", case.get("diagnosis") or ""))
        if not ids:
            continue
        total += 1
        found = of(case["rows"])
        hits += bool(set(worst(found)) & ids) or (
            bool(ids & {"P30", "P29", "P11"}) and found.verdict != "findings"
        )
    assert hits >= 0.85 * total
