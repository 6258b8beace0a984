import json
import time

import pytest

from autotrainer.contract.models import LaunchSpec
from autotrainer.errors import ExecutorError
from autotrainer.executors.base import JobState, Resources
from autotrainer.executors.environment import job_environment
from autotrainer.executors.local import LocalExecutor
from autotrainer.testing.jobs import SLEEPS, ended, wait_until, write_job

CPU, CUDA = Resources("cpu"), Resources("cuda")
SHOWS = "import json, os\njson.dump(dict(os.environ), open('aside', 'w'))\nos.rename('aside', 'seen.json')\n"


@pytest.fixture
def executor(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return LocalExecutor(slots=2)


@pytest.fixture
def start(tmp_path):
    jobs = []

    def start(executor, name, resources=CUDA):
        folder = write_job(tmp_path / name, SHOWS + "import time\ntime.sleep(60)\n", job_id=name)
        jobs.append(executor.submit(name, folder, resources))
        return jobs[-1]

    yield start
    for job in jobs:
        job.cancel("the test is over")
    for job in jobs:
        ended(job)


def seen(job):
    wait_until((job.directory / "seen.json").exists)
    return json.loads((job.directory / "seen.json").read_text())["CUDA_VISIBLE_DEVICES"]


def given(job):
    return LaunchSpec.read(job.directory / "launch.json").devices


def test_each_job_gets_a_device_of_its_own_and_sees_no_other(executor, start):
    jobs = [start(executor, name) for name in ("n001.1", "n002.1")]
    assert [given(job) for job in jobs] == [[0], [1]]
    assert [seen(job) for job in jobs] == ["0", "1"]
    assert executor.free_devices() == []


def test_a_device_is_free_again_when_its_job_has_ended(executor, start):
    first, _ = start(executor, "n001.1"), start(executor, "n002.1")
    first.cancel("enough")
    ended(first)
    assert executor.free_devices() == [0]
    assert given(start(executor, "n003.1")) == [0]


def test_devices_are_shared_only_where_there_are_more_jobs_than_devices(executor, start):
    assert [given(start(executor, f"n00{n}.1")) for n in range(4)] == [[0], [1], [0], [1]]


def test_after_a_restart_the_devices_of_attached_jobs_count_as_used(executor, start):
    job = start(executor, "n001.1")
    other = LocalExecutor(slots=2)
    assert other.free_devices() == [0, 1]
    other.attach("n001.1", job.directory)
    assert other.free_devices() == [1]
    assert given(start(other, "n002.1")) == [1]


def test_a_device_that_others_compute_on_is_left_to_them(executor, start, monkeypatch):
    monkeypatch.setattr("autotrainer.executors.local.busy_devices", lambda: frozenset({0}))
    assert [given(start(executor, name)) for name in ("n001.1", "n002.1")] == [[1], [1]]


def test_where_others_have_every_device_nothing_starts_and_it_says_what_to_do(executor, start, monkeypatch):
    monkeypatch.setattr("autotrainer.executors.local.busy_devices", lambda: frozenset({0, 1}))
    with pytest.raises(ExecutorError, match="other processes compute on all devices"):
        start(executor, "n001.1")


def test_devices_that_were_asked_for_are_given(executor, start):
    job = start(executor, "n001.1", Resources("cuda", devices=(0, 1)))
    assert (given(job), seen(job)) == ([0, 1], "0,1")
    before = job.usage().device_seconds
    time.sleep(0.2)
    assert job.usage().device_seconds - before >= 0.4


def test_a_job_for_the_cpu_sees_no_device(executor, start, tmp_path):
    environment = job_environment(CPU, tmp_path)
    folder = write_job(tmp_path, SHOWS, env=environment)
    job = executor.submit("n001.1", folder, CPU)
    assert seen(job) == ""
    assert given(job) == []
    ended(job)


def test_only_devices_that_we_see_ourselves_are_given(executor, start, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5, 7")
    assert executor.free_devices() == [3, 5]
    assert [given(start(executor, name)) for name in ("n001.1", "n002.1")] == [[3], [5]]


@pytest.mark.parametrize(("value", "message"), [("", "is empty"), ("GPU-5a", "is 'GPU-5a': give device ind")])
def test_no_device_or_an_unreadable_list_is_an_error_before_anything_starts(
    executor, monkeypatch, tmp_path, value, message
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    folder = write_job(tmp_path, SLEEPS)
    with pytest.raises(ExecutorError, match=message):
        executor.submit("n001.1", folder, CUDA)
    assert executor.attach("n001.1", folder).state() is JobState.PENDING


@pytest.mark.parametrize("slots", [0, -1])
def test_an_executor_has_at_least_one_slot(slots):
    with pytest.raises(ValueError, match=f"slots is {slots}"):
        LocalExecutor(slots)


@pytest.mark.parametrize(
    "arguments",
    [{"device": "tpu"}, {"device": "cpu", "devices": (0,)}, {"device": "cuda", "threads": 0}],
)
def test_impossible_resources_are_refused(arguments):
    with pytest.raises(ValueError, match=r"is|are"):
        Resources(**arguments)


def test_no_secret_travels_into_a_job(monkeypatch, tmp_path):
    for name in ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    environment = job_environment(Resources("cuda", devices=(1, 2), threads=3), tmp_path)
    assert "secret" not in environment.values()
    assert environment["PYTHONPATH"] == str(tmp_path)
    assert environment["CUDA_VISIBLE_DEVICES"] == "1,2"
    assert {environment[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"3"}
    assert environment["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert environment["TOKENIZERS_PARALLELISM"] == "false"
