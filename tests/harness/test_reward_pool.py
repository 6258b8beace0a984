import math
import time
from pathlib import Path

import pytest

from harness.contract import ContractError
from harness.reward_pool import RewardPool


def scores(folder: Path, source: str, texts=("1", "2", "3"), **options) -> list[float | None]:
    path = folder / "r.py"
    path.write_text(source)
    pool = RewardPool(path, "fn", **options)
    try:
        n = len(texts)
        return pool.score(
            "t", [[]] * n, list(texts), [[1]] * n, {"answer": ["1"] * n, "level": list(range(n))}
        )
    finally:
        pool.close()


def test_trl_form_sees_the_batch_and_the_columns(tmp_path):
    source = "def fn(completions, answer, level, **kw):\n    return [(c[0]['content'] == a) + l for c, a, l in zip(completions, answer, level)]\n"
    assert scores(tmp_path, source) == [1.0, 1.0, 2.0]


def test_async_functions_are_awaited(tmp_path):
    assert scores(tmp_path, "async def fn(completions):\n    return [0.5] * len(completions)\n") == [0.5] * 3


def test_verl_form_gets_one_completion_a_call(tmp_path):
    source = "def fn(data_source, solution_str, ground_truth, extra_info=None):\n    return {'score': float(solution_str == ground_truth)}\n"
    assert scores(tmp_path, source) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "fault",
    [
        "while True: pass",
        "import os; os._exit(1)",
        "raise ValueError",
        "return ['x'] * len(completions)",
        "return []",
    ],
)
def test_only_the_completion_at_fault_has_no_value(tmp_path, fault):
    source = f"def fn(completions, **kw):\n    if any(c[0]['content'] == '2' for c in completions):\n        {fault}\n    return [1.0] * len(completions)\n"
    started = time.monotonic()
    assert scores(tmp_path, source, timeout_s=0.5) == [1.0, None, 1.0]
    assert time.monotonic() - started < 20


def test_not_a_number_arrives_as_it_is(tmp_path):
    assert math.isnan(scores(tmp_path, "def fn(completions):\n    return [float('nan')]\n", texts=["1"])[0])


def test_what_the_function_prints_does_no_harm(tmp_path):
    assert (
        scores(tmp_path, "def fn(completions):\n    print('{}')\n    return [2] * len(completions)\n")
        == [2.0] * 3
    )


def test_a_file_that_cannot_be_loaded_is_an_error(tmp_path):
    with pytest.raises(ContractError, match="ZeroDivisionError"):
        scores(tmp_path, "1 / 0\n")
