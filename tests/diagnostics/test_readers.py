"""The same run in the formats that people have gives the same metrics; nothing that is no log gets through."""

import csv
import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrainer.diagnostics.readers.keys import canonical, normalised
from autotrainer.diagnostics.readers.run import read_runs
from autotrainer.errors import ConfigError

ROWS = [
    {"step": i, "reward": round(0.1 + 0.01 * i, 4), "kl": 0.001 * i, "grad_norm": 0.5, "entropy": 0.9}
    for i in range(1, 13)
]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def as_text(kind: str) -> str:
    verl = {
        "reward": "critic/score/mean",
        "kl": "actor/kl_loss",
        "grad_norm": "actor/grad_norm",
        "entropy": "actor/entropy",
    }
    lines = []
    for row in ROWS:
        rest = {key: value for key, value in row.items() if key != "step"}
        if kind == "jsonl":
            lines.append(json.dumps(row))
        elif kind == "trl":
            lines.append(f"  8%|█ | {row['step']}/100 [00:01]\r{dict(rest, epoch=0.1)}")
            lines.append("some warning: nothing to see")
        elif kind == "strings":
            lines.append(str({key: str(value) for key, value in rest.items()}))
        elif kind == "verl":
            lines.append(
                f"(Worker pid=1) step:{row['step']} - "
                + " - ".join(f"{verl[key]}:{value}" for key, value in rest.items())
            )
        elif kind == "slime":
            named = {
                "rollout/raw_reward": row["reward"],
                "train/kl_loss": row["kl"],
                "train/grad_norm": 0.5,
                "train/entropy_loss": 0.9,
            }
            lines.append(f"[2025-08-01] step {row['step']}: {named}")
        elif kind == "openrlhf":
            lines.append(
                f"Train epoch [1/1]: {row['step']}/12 [00:10, step={row['step']}, rm={row['reward']}, kl={row['kl']}, grad_norm=0.5, entropy=0.9]"
            )
        elif kind == "nemo":
            lines += [f"========== Step {row['step']}/12 ==========", "Training Results:", "  • Loss: 0.0123"]
            lines += [
                f"  • Avg Reward: {row['reward']}",
                f"  • KL: {row['kl']}",
                "  • Grad Norm: 0.5",
                "  • Entropy: 0.9",
            ]
        elif kind == "wandb":
            lines.append(
                json.dumps(
                    {
                        "_step": row["step"],
                        "_runtime": 3,
                        "train/reward": row["reward"],
                        "train/kl": row["kl"],
                        "train/grad_norm": 0.5,
                        "train/entropy": 0.9,
                    }
                )
            )
        elif kind == "verl-file":
            lines.append(
                json.dumps({"step": row["step"], "data": {verl[key]: value for key, value in rest.items()}})
            )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "kind", ["jsonl", "trl", "strings", "verl", "slime", "openrlhf", "nemo", "wandb", "verl-file"]
)
def test_a_log_of_any_framework_gives_the_same_series(tmp_path, kind):
    (run,) = read_runs(write(tmp_path / "log.txt", as_text(kind)))
    for key in ("reward", "kl", "grad_norm", "entropy"):
        assert run.metrics.series(key) == [(row["step"], row[key]) for row in ROWS], (kind, run.format)


def test_tables_and_state_files_give_the_same_series(tmp_path):
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ROWS[0].keys())
        writer.writeheader()
        writer.writerows(ROWS)
    write(tmp_path / "trainer_state.json", json.dumps({"log_history": ROWS, "best_metric": None}))
    write(tmp_path / "list.json", json.dumps(ROWS))
    write(tmp_path / "columns.json", json.dumps({key: [row[key] for row in ROWS] for key in ROWS[0]}))
    for name, kind in (
        ("a.csv", "csv"),
        ("trainer_state.json", "trainer_state"),
        ("list.json", "json"),
        ("columns.json", "json"),
    ):
        (run,) = read_runs(tmp_path / name)
        assert run.format == kind
        assert run.metrics.values("reward") == [row["reward"] for row in ROWS]
    assert read_runs(tmp_path)[0].format == "folder"


def test_an_mlflow_run_folder_is_read(tmp_path):
    for key in ("reward", "kl"):
        path = tmp_path / "0" / "abc" / "metrics" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"1700000000000 {row[key]} {row['step']}\n" for row in ROWS))
    (run,) = read_runs(tmp_path)
    assert (run.format, run.metrics.values("kl")) == ("mlflow", [row["kl"] for row in ROWS])


def test_not_finite_numbers_in_any_spelling_are_kept(tmp_path):
    rows = ["{'loss': nan, 'reward': 0.5, 'kl': inf}", '{"loss": "NaN", "reward": "0.5", "kl": "-Infinity"}']
    run = read_runs(write(tmp_path / "log", "\n".join(rows)))[0]
    assert [key for _, key in run.metrics.nonfinite()] == ["loss", "kl", "loss", "kl"]


def test_a_resumed_run_is_one_run_and_a_second_run_is_another(tmp_path):
    resumed = [{"step": s, "reward": s / 10} for s in (1, 2, 3, 4, 5, 4, 5, 6)]
    (run,) = read_runs(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, resumed))))
    assert [step for step, _ in run.metrics.series("reward")] == [1, 2, 3, 4, 5, 6]
    twice = [{"step": s, "reward": 0.1} for s in (1, 2, 3, 4, 1, 2)]
    assert [
        len(run.metrics) for run in read_runs(write(tmp_path / "b.jsonl", "\n".join(map(json.dumps, twice))))
    ] == [4, 2]


def test_train_and_eval_lines_of_one_step_become_one_row(tmp_path):
    rows = [{"step": 1, "reward": 0.5}, {"step": 1, "eval_accuracy": 0.3}]
    (run,) = read_runs(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert run.metrics.rows == [{"step": 1, "reward": 0.5, "probe/accuracy": 0.3}]


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("reward_mean", "reward"),
        ("clip_frac", "clip_ratio/region_mean"),
        ("critic/score/mean", "reward"),
        ("train/entropy", "entropy"),
        ("response_length/clip_ratio", "completions/clipped_ratio"),
        ("rewards/accuracy_reward/mean", "rewards/accuracy_reward/mean"),
    ],
)
def test_names_are_mapped_once(alias, name):
    assert canonical(alias) == name


def test_a_key_under_its_own_name_wins_over_its_aliases():
    assert normalised({"critic/rewards/mean": 1.0, "reward": 2.0})["reward"] == 2.0
    assert normalised({"reward": 2.0, "critic/rewards/mean": 1.0})["reward"] == 2.0


@pytest.mark.parametrize(
    "content", [b"", b"   \n", b"\x7fELF\x00\x00\x01" * 50, b"hello world\n", b"[[[[", b"{}", b'{"a": "b"}']
)
def test_what_is_no_log_is_one_line(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_runs(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_unknown_format_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no"):
        read_runs(tmp_path / "none")
    with pytest.raises(ConfigError, match="known are"):
        read_runs(write(tmp_path / "a", as_text("jsonl")), "parquet")


def survives(path: Path) -> None:
    from autotrainer.diagnostics.survey.survey import survey

    try:
        for run in read_runs(path):
            survey(run)
    except ConfigError:
        return


@settings(max_examples=150)
@given(st.binary(max_size=400))
def test_bytes_never_crash_it(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzz-bytes"
    path.write_bytes(content)
    survives(path)


values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("nan"))
keys = st.sampled_from(["step", "reward", "kl", "entropy", "loss", "grad_norm", "reward_std", "completions/clipped_ratio",
                        "frac_reward_zero_std", "completions/mean_length", "rewards/a/mean", "rewards/b/mean", "probe/accuracy",
                        "critic/vf_loss", "ratio/max", "num_turns"])  # fmt: skip


@settings(max_examples=150)
@given(st.lists(st.dictionaries(keys, values, max_size=8), max_size=30))
def test_hostile_rows_never_crash_it(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "fuzz-rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    survives(path)


@pytest.mark.parametrize("kind", ["trl", "verl", "nemo", "openrlhf", "jsonl"])
def test_mutated_logs_never_crash_it(tmp_path, kind):
    rng = random.Random(kind)
    whole = as_text(kind).encode()
    for turn in range(40):
        broken = bytearray(whole)
        for _ in range(rng.randrange(1, 30)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        path = tmp_path / f"{turn}"
        path.write_bytes(bytes(broken[: rng.randrange(1, len(broken))]))
        survives(path)


def test_deep_json_and_a_line_of_megabytes_are_passed_over(tmp_path):
    text = "[" * 100_000 + "\n" + '{"reward": 1, "x": "' + "a" * 1_500_000 + '"}\n' + as_text("jsonl")
    (run,) = read_runs(write(tmp_path / "log", text), "jsonl")
    assert len(run.metrics) == 12
    assert not math.isnan(run.metrics.values("reward")[0])
