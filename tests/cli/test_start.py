"""How the command line starts: fast, and without what only some commands need."""

import json
import subprocess
import sys
import time

import pytest

HEAVY = (
    "torch",
    "transformers",
    "trl",
    "mlflow",
    "litellm",
    "langgraph",
    "optuna",
    "numpy",
    "rich",
)
PROGRAM = """
import json, sys
from autotrainer.cli.app import invoke
code = invoke(sys.argv[1:])
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""


def test_help_takes_less_than_three_tenths_of_a_second():
    def seconds() -> float:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "autotrainer", "--help"], check=True, stdout=subprocess.DEVNULL, timeout=60
        )
        return time.perf_counter() - started

    assert min(seconds() for _ in range(5)) < 0.3


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("--version",), ("skills",)])
def test_the_start_imports_no_heavy_package(arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, capture_output=True, text=True, timeout=60
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert not [name for name in HEAVY if name in modules]


def test_listing_tasks_and_skills_loads_no_tensor_library_and_no_tracker():
    for arguments in (("tasks", "list"), ("skills", "list"), ("doctor", "--json")):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        _, modules = json.loads(done.stderr)
        assert not [name for name in ("torch", "transformers", "trl", "mlflow", "litellm") if name in modules]


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m autotrainer --help | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
