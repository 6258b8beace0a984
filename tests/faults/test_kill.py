"""kill -9 of the control plane and of jobs, at seeded random moments of a real study."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from autotrainer.contract.paths import StudyPaths
from autotrainer.study import steps
from autotrainer.study.study import open_runtime, run_study
from autotrainer.study.view import StudyView
from autotrainer.tree.state import NodeState

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

SETTINGS = (
    "search.mode=tree",
    "search.steps=12",
    "search.max_nodes=3",
    "search.careful_seeds=1",
    "search.drafts=1",
    "search.confirm_seeds=2",
    "search.max_depth=2",
)


def command(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "autotrainer", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def killed_job(paths: StudyPaths, rng: random.Random) -> str | None:
    """Kill a training job that runs now and has an attempt left; its folder, or None where there is none."""
    view = StudyView.read(paths.root)
    limit = view.config.search.max_attempts
    running = [node for node in view.tree.with_state(NodeState.RUNNING) if node.attempt < limit]
    if not running:
        return None
    record = paths.job(rng.choice(running).job_id) / "supervisor.json"
    try:
        value = json.loads(record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if value.get("job_pid") is None or value.get("ended") is not None:
        return None
    try:
        os.kill(value["job_pid"], signal.SIGKILL)
    except ProcessLookupError:
        return None
    return str(record.parent)


def run_killed(runs: Path, seed: int, kills: int) -> tuple[StudyPaths, int]:
    """A study whose control plane dies `kills` times, with a job or without; how many jobs were killed."""
    rng = random.Random(seed)
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    asked = ["--task", "math", "--budget", "2xCPUx10m", "--seed", str(seed), *settings]
    process = command("run", *asked, "--runs", str(runs), "--id", "s")
    paths, jobs = StudyPaths(runs / "s"), 0
    for _ in range(kills):
        deadline = time.monotonic() + rng.uniform(2.0, 14.0)
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
        if process.poll() is not None:
            break
        if rng.random() < 0.5 and paths.journal.is_file():
            jobs += killed_job(paths, rng) is not None
        process.kill()
        process.communicate()
        if not paths.journal.is_file():
            process = command("run", *asked, "--runs", str(runs), "--id", "s")
        else:
            process = command("resume", "s", "--runs", str(runs))
    _, trouble = process.communicate(timeout=600)
    assert process.returncode == 0, trouble.decode()
    return paths, jobs


@pytest.fixture(scope="module", params=[1, 2])
def survivor(request, tmp_path_factory) -> StudyView:
    """A whole study with two slots that was killed six times."""
    paths, _ = run_killed(tmp_path_factory.mktemp("runs") / "runs", request.param, kills=6)
    return StudyView.read(paths.root)


def next_proposal(view: StudyView, position: int, folder: Path) -> dict:
    """What the study proposes when it has nothing but the first `position` events of its journal."""
    folder.mkdir()
    for name in ("study.toml", "nodes", "data", "evals"):
        (folder / name).symlink_to(view.paths.root / name)
    lines = view.paths.journal.read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "journal.jsonl").write_text("".join(lines[:position]), encoding="utf-8")
    runtime = open_runtime(folder)
    runtime.clock = lambda: view.events[position].time
    steps.plan_next(runtime)
    return next(event for event in list(runtime.journal)[position:] if event.kind == "node_proposed").data


def test_with_several_slots_the_next_proposal_follows_from_the_journal_and_the_seed(survivor, tmp_path):
    kinds = [event.kind for event in survivor.events]
    proposed = [
        i for i in range(1, len(kinds)) if kinds[i] == "node_proposed" and kinds[i - 1] != "node_proposed"
    ][1:]
    assert len(proposed) >= 2
    for position in proposed:
        found = next_proposal(survivor, position, tmp_path / str(position))
        assert found == survivor.events[position].data


def test_a_study_survives_kill_9_of_control_plane_and_jobs_at_random_moments(survivor):
    view, paths = survivor, survivor.paths
    assert view.state == "finished"
    submitted = Counter(event.data["job_id"] for event in view.events if event.kind == "job_submitted")
    settled = Counter(event.data["job_id"] for event in view.events if event.kind == "job_settled")
    assert submitted == settled
    assert set(submitted.values()) == {1}
    for node in view.tree.nodes:
        attempts = sorted(path for path in paths.node(node.id).glob("[0-9]*")) if node.attempt else []
        assert len(attempts) == node.attempt
        results = [json.loads((path / "result.json").read_text(encoding="utf-8")) for path in attempts]
        assert [result["status"] for result in results[:-1]] == ["crashed"] * (node.attempt - 1)
    assert {node.state for node in view.tree.nodes} == {NodeState.COMPLETED}
    costs = [view.node_cost(node.id) for node in view.tree.nodes]
    assert view.ledger.used == pytest.approx(sum(c["train_device_s"] + c["eval_device_s"] for c in costs))
    assert view.ledger.reserved == 0


def test_a_study_whose_control_plane_died_before_the_clock_started_is_taken_up(tmp_path):
    runs = tmp_path / "runs"
    process = command("run", "--task", "math", "--budget", "1xCPUx1m", "--runs", str(runs), "--id", "s")
    while not (runs / "s" / "data").is_dir():
        time.sleep(0.02)
    process.kill()
    process.communicate()
    view = run_study(runs / "s", should_stop=lambda: _started(runs / "s"))
    assert view.last("study_started") is not None
    assert view.state in ("paused", "finished")


def _started(root: Path) -> bool:
    return StudyView.read(root).last("study_started") is not None
