import json
import os
import subprocess
import sys
import time

import pytest

from autotrainer.executors import supervisor
from autotrainer.executors.base import JobState, Resources
from autotrainer.executors.debug import DebugExecutor
from autotrainer.executors.local import LocalExecutor
from autotrainer.testing.jobs import ended, is_alive, record, write_job

CPU = Resources("cpu")
BEATS = """
import json, os, time
def beat(**facts):
    json.dump({"time": time.time(), "phase": "train", "phase_started": 1.0, **facts}, open("aside", "w"))
    os.rename("aside", "heartbeat.json")
"""


def run(tmp_path, script, **changes):
    job = DebugExecutor().submit("n001.1", write_job(tmp_path, script, **changes), CPU)
    return ended(job), record(job)


def test_a_job_whose_heartbeat_stops_is_hung(tmp_path):
    result, known = run(tmp_path, BEATS + "beat()\ntime.sleep(60)\n", heartbeat_stale_s=0.5)
    assert (result.status, known.killed) == ("crashed", "hung")
    assert "hung" in result.reason


def test_a_job_that_beats_is_left_alone_and_one_that_never_beat_too(tmp_path):
    script = BEATS + "for _ in range(12):\n    beat()\n    time.sleep(0.1)\n"
    assert run(tmp_path / "beats", script, heartbeat_stale_s=0.8)[1].killed is None
    assert run(tmp_path / "silent", "import time\ntime.sleep(1)", heartbeat_stale_s=0.3)[1].killed is None


def test_a_heartbeat_from_the_future_does_not_hide_that_it_stopped(tmp_path):
    script = BEATS + "beat(time=time.time() + 1e9)\ntime.sleep(60)\n"
    assert run(tmp_path, script, heartbeat_stale_s=0.5)[1].killed == "hung"


def test_a_phase_over_its_limit_is_hung_though_the_heart_beats(tmp_path):
    script = BEATS + "while True:\n    beat(phase='probe')\n    time.sleep(0.05)\n"
    started = time.monotonic()
    _, known = run(tmp_path, script, heartbeat_stale_s=30, phase_s={"probe": 0.6, "train": 0.1})
    assert known.killed == "hung"
    assert 0.6 < time.monotonic() - started < 5


def test_short_phases_that_add_up_to_more_than_the_limit_are_fine(tmp_path):
    script = BEATS + "for n in range(12):\n    beat(phase_started=float(n))\n    time.sleep(0.1)\n"
    assert run(tmp_path, script, phase_s={"train": 0.8})[1].killed is None


@pytest.mark.parametrize("junk", ["'{'", "'[]'", "'null'", '\'{"time": {}, "phase": []}\'', "'[' * 100000"])
def test_junk_for_a_heartbeat_does_not_end_the_supervision(tmp_path, junk):
    script = f"import time\nopen('heartbeat.json', 'w').write({junk})\ntime.sleep(60)\n"
    assert run(tmp_path, script, wall_s=0.6)[1].killed == "wall"


@pytest.mark.parametrize("name", ["heartbeat.json", "result.json", "job.log", "metrics.jsonl"])
def test_a_pipe_under_the_name_of_a_file_blocks_nothing(tmp_path, name):
    script = f"import os\nif os.path.exists({name!r}): os.unlink({name!r})\nos.mkfifo({name!r})\n"
    result, known = run(tmp_path, script + "import time\ntime.sleep(60)\n", wall_s=0.5)
    assert (result.written_by, known.killed) == ("supervisor", "wall")


def test_a_link_for_the_log_shows_nothing_of_what_it_points_to(tmp_path):
    (tmp_path / "vault").write_text("the answer is 42\n")
    script = "import os\nos.unlink('job.log')\nos.symlink('../vault', 'job.log')\nos._exit(3)\n"
    result, _ = run(tmp_path / "job", script)
    assert "42" not in result.reason
    assert "exit code 3" in result.reason


@pytest.mark.parametrize("content", ["'{'", "'[]'", "''"])
def test_a_torn_result_is_replaced(tmp_path, content):
    result, _ = run(tmp_path, f"open('result.json', 'w').write({content})\n")
    assert (result.status, result.written_by) == ("crashed", "supervisor")


def test_a_folder_for_a_result_is_moved_out_of_the_way(tmp_path):
    assert run(tmp_path, "import os\nos.mkdir('result.json')\n")[0].written_by == "supervisor"


def test_what_a_crashed_job_did_is_in_the_result_that_is_written_for_it(tmp_path):
    script = """
import json, os
open("metrics.jsonl", "w").write('{"step": 1}\\n{"step": 2}\\n{"step": 3}\\n{"ste')
for step, kind in ((2, "full"), (10, "weights"), (3, "other")):
    os.makedirs(f"checkpoints/{step}")
    json.dump({"step": step, "kind": kind}, open(f"checkpoints/{step}/checkpoint.json", "w"))
os.makedirs("checkpoints/.4.aside")
os._exit(7)
"""
    result, known = run(tmp_path, script, devices=[0, 1])
    assert result.steps == 3
    assert [(found.step, found.kind) for found in result.checkpoints] == [(2, "full"), (10, "weights")]
    assert result.device_seconds == pytest.approx(2 * (known.ended - known.started), abs=0.05)


def test_what_a_job_leaves_running_ends_with_it(tmp_path):
    script = """
import subprocess, sys
sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
print(subprocess.Popen(sleep, start_new_session=True).pid, file=open("left", "w"))
"""
    run(tmp_path, script)
    assert not is_alive(int((tmp_path / "left").read_text()))


def test_a_job_that_ended_is_seen_within_a_tenth_of_a_second_of_its_end(tmp_path):
    _, known = run(tmp_path, "import time\ntime.sleep(0.2)\nprint(time.time(), file=open('end', 'w'))\n")
    assert known.ended - float((tmp_path / "end").read_text()) < 0.1


def test_submitting_takes_less_than_three_tenths_of_a_second(tmp_path):
    executor, took = LocalExecutor(slots=1), []
    for number in range(5):
        folder = write_job(tmp_path / str(number), "")
        before = time.perf_counter()
        job = executor.submit("n001.1", folder, CPU)
        took.append(time.perf_counter() - before)
        ended(job)
        assert job.state() is JobState.DONE
    assert min(took) < 0.3


def test_the_supervisor_loads_nothing_but_the_standard_library(tmp_path):
    code = f"import sys, runpy\nrunpy.run_path({supervisor.__file__!r})\nprint(*sys.modules)\n"
    command = [sys.executable, "-I", "-S", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True)
    tops = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert tops <= {*sys.stdlib_module_names, "__main__"}


def test_a_supervisor_sees_none_of_our_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    script = "import os\nopen('seen', 'wb').write(open(f'/proc/{os.getppid()}/environ', 'rb').read())\n"
    run(tmp_path, script)
    assert b"hf_secret" not in (tmp_path / "seen").read_bytes()


def test_the_record_tells_the_processes_apart_from_later_ones_of_the_same_number(tmp_path):
    _, known = run(tmp_path, "")
    assert known.create_time > 0
    assert known.job_create_time >= known.create_time
    assert supervisor.creation_time(os.getpid()) != known.create_time
    assert supervisor.creation_time(known.job_pid) is None


def test_wrong_usage_is_told(tmp_path):
    done = subprocess.run([sys.executable, supervisor.__file__], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: supervisor.py [--foreground] FOLDER\n")


def test_a_launch_file_that_cannot_be_read_starts_nothing(tmp_path):
    (tmp_path / "launch.json").write_text(json.dumps([]))
    command = [sys.executable, supervisor.__file__, "--foreground", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    assert not (tmp_path / "supervisor.json").exists()
