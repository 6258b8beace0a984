"""Run a study that a local model plans and print what share of its decisions was of use.

Usage: python -m experiments.local_model.run SERVER_PYTHON RUNS; `make local-model` does the set-up.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from autotrainer.cli.app import invoke
from autotrainer.study.view import StudyView

BUDGET, DIGEST_TOKENS, DECISION_TOKENS = "1xCPUx15m", 1500, 200
START_LIMIT_S = 120.0


def shares(view: StudyView) -> dict[str, Any]:
    """Decisions asked for and returned, and the shares of valid ones, overrides and fallbacks."""
    decisions = [event.data for event in view.events if event.kind == "llm_decision"]
    calls = [event.data for event in view.events if event.kind == "llm_settled"]
    outcomes = Counter(str(data["outcome"]) for data in decisions)
    asked = max(1, len(decisions))
    valid = outcomes["accepted"] + outcomes["edits_dropped"]
    return {
        "decisions": len(decisions),
        "answers_returned": sum(not call["error"] for call in calls),
        "valid_share": valid / asked,
        "override_share": sum(data["overrides"] > 0 for data in decisions) / asked,
        "fallback_share": outcomes["fallback"] / asked,
        "outcomes": dict(outcomes),
        "state": view.state,
    }


def main(server_python: str, runs: Path) -> int:
    """Serve, run, print; 0 where the study ended normally with at least three answers."""
    with tempfile.TemporaryDirectory() as folder:
        address = Path(folder) / "url"
        argv = [server_python, str(Path(__file__).with_name("serve.py")), str(address)]
        server = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            url = _await(address, server)
            study = f"local-{int(time.time())}"
            code = invoke(_command(url, runs, study))
        finally:
            server.terminate()
            server.wait()
    found = shares(StudyView.read(runs / study))
    for key, value in found.items():
        sys.stdout.write(f"{key}: {value if not isinstance(value, float) else f'{value:.2f}'}\n")
    return 0 if code == 0 and found["state"] == "finished" and found["answers_returned"] >= 3 else 1


def _command(url: str, runs: Path, study: str) -> list[str]:
    return [
        *("run", "--task", "math", "--budget", BUDGET, "--runs", str(runs), "--id", study),
        *("--llm", "openai/local", "--llm-base-url", url, "--llm-timeout", "120"),
        *("--set", f"llm.digest_tokens={DIGEST_TOKENS}", "--set", f"llm.decision_tokens={DECISION_TOKENS}"),
        *("--set", "llm.edits=false", "--set", "search.mode=tree", *sys.argv[3:]),
    ]


def _await(address: Path, server: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + START_LIMIT_S
    while not address.is_file() or not address.read_text():
        if server.poll() is not None or time.monotonic() > until:
            raise SystemExit("the model server did not start")
        time.sleep(0.2)
    return address.read_text()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
