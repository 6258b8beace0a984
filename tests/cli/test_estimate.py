import json
from itertools import pairwise

import pytest


def estimate(cli, *arguments: str) -> dict:
    ended = cli("estimate", "--task", "math", *arguments, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_a_night_on_eight_gpus_is_planned_without_the_gpus(cli, tmp_path):
    found = estimate(cli, "--budget", "8xH100x24h", "--set", "recipe.max_completion_length=2048")
    assert found["plan"]["mode"] == "tree"
    assert found["memory_gib"]["fits"]
    rows = found["timetable"]
    assert [row["phase"] for row in rows][:4] == ["base", "careful", "search", "confirm"]
    assert all(a["to_s"] == b["from_s"] for a, b in pairwise(rows))
    assert rows[-1]["to_s"] <= 24 * 3600
    assert sum(row["device_s"] for row in rows) <= 8 * 24 * 3600
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_is_said_with_what_to_change(cli):
    large = estimate(cli, "--budget", "1xL4x2h", "--model", "Qwen/Qwen2.5-7B-Instruct")["memory_gib"]
    assert not large["fits"]
    assert "smaller model" in large["advice"]
    long = estimate(
        cli, "--budget", "1xA10x40d", "--model", "org/x-0.5B", "--set", "recipe.max_completion_length=32768"
    )["memory_gib"]
    assert not long["fits"]
    assert "max_completion_length" in long["advice"]


def test_the_text_names_gain_mode_memory_time_disk_and_price(cli):
    ended = cli("estimate", "--task", "math", "--budget", "8xH100x24h")
    for word in (
        "can prove",
        "mode tree",
        "timetable",
        "memory",
        "step",
        "disk",
        "price",
        "nothing was started",
    ):
        assert word in ended.out


@pytest.mark.parametrize("budget", ["8xNOPEx24h", "8H100", "0xH100x1h"])
def test_a_budget_nobody_can_price_is_one_line_and_exit_code_2(cli, budget):
    ended = cli("estimate", "--task", "math", "--budget", budget)
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
