"""Write trajectory.json anew: `python -m tests.numerics.record`, after a change meant to change numbers."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.numerics.test_trajectories import BASE, KEYS, PINNED, STEPS

PROGRAM = """
import json, pytest
from tests.harness.conftest import data, job_value, run
from tests.numerics.test_trajectories import BASE, STEPS, trajectory

def test_record(run, tmp_path_factory):
    print("TRAJECTORY" + json.dumps(trajectory(run(arguments=BASE, steps=STEPS))))
"""


def main() -> None:
    """Run the one configuration and write its numbers."""
    path = PINNED.with_name("test_record_.py")
    path.write_text(PROGRAM)
    try:
        said = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-s", str(path)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    finally:
        path.unlink()
    found = next(line for line in said.splitlines() if "TRAJECTORY" in line).partition("TRAJECTORY")[2]
    value = {"arguments": BASE, "steps": STEPS, "keys": list(KEYS), "trajectory": json.loads(found)}
    PINNED.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
