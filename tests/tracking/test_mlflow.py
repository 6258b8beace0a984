"""The mirror against a real MLflow database."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from autotrainer.files import dumps
from autotrainer.study.view import StudyView
from autotrainer.testing.sample_study import SampleStudy, write_running_study, write_sample_study
from autotrainer.tracking.mlflow import MlflowTracker, default_uri
from autotrainer.tree.journal import Journal
from autotrainer.tree.proposal import Purpose

pytestmark = pytest.mark.slow  # an empty MLflow database alone takes seconds
BY_STATE = {"completed": "FINISHED", "pruned": "KILLED", "failed": "FAILED"}


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    """An empty MLflow database: making one takes seconds, so tests copy it."""
    runs = tmp_path_factory.mktemp("empty")
    tracker = MlflowTracker(runs)
    tracker.mirror(StudyView.read(SampleStudy(runs / "new").root))
    assert tracker.last_error is None
    import mlflow

    client = mlflow.MlflowClient(default_uri(runs))
    experiment = client.get_experiment_by_name("autotrainer/math").experiment_id
    client.rename_experiment(experiment, "used")
    return runs / "mlflow.db"


@pytest.fixture
def runs(tmp_path: Path, database: Path) -> Path:
    shutil.copy(database, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory, database) -> tuple[StudyView, MlflowTracker]:
    """The finished sample study, mirrored; for tests that only read."""
    runs = tmp_path_factory.mktemp("mirrored")
    shutil.copy(database, runs / "mlflow.db")
    view = StudyView.read(write_sample_study(runs / "sample"))
    tracker = MlflowTracker(runs)
    tracker.mirror(view)
    assert tracker.last_error is None
    return view, tracker


def stored(runs: Path) -> dict[str, Any]:
    """The runs of autotrainer/math by node id; the study's under its own id."""
    import mlflow

    client = mlflow.MlflowClient(default_uri(runs))
    experiment = client.get_experiment_by_name("autotrainer/math").experiment_id
    found = client.search_runs([experiment], max_results=1000)
    assert len(
        {(run.data.tags["autotrainer.study"], run.data.tags["autotrainer.node"]) for run in found}
    ) == len(found)
    return {run.data.tags["autotrainer.node"] or run.data.tags["autotrainer.study"]: run for run in found}


def history(runs: Path, run, key: str) -> list[tuple[int, float]]:
    import mlflow

    points = mlflow.MlflowClient(default_uri(runs)).get_metric_history(run.info.run_id, key)
    return sorted((point.step, point.value) for point in points)


def test_every_node_is_a_run_with_its_tags_status_and_parameters(mirrored):
    view, _ = mirrored
    found = stored(view.paths.root.parent)
    assert set(found) == {"sample", *(node.id for node in view.tree.nodes)}
    for node in view.tree.nodes:
        run, tags = found[node.id], found[node.id].data.tags
        assert run.info.status == BY_STATE[node.state]
        assert tags["autotrainer.path"] == "/".join(step.id for step in view.tree.lineage(node.id))
        assert tags["autotrainer.verdict"] == node.verdict
        assert float(tags["autotrainer.cost_device_s"]) == pytest.approx(
            sum(view.node_cost(node.id).values()), abs=0.1
        )
    assert found["n004"].data.tags["autotrainer.skill"] == "lr-backoff"
    assert found["n004"].data.params["learning_rate"] == "0.0003"
    assert found["n015"].info.run_name.startswith("n015 \u2605")


def test_runs_hang_under_their_parents_run_and_first_ones_under_the_study(mirrored):
    view, _ = mirrored
    found = stored(view.paths.root.parent)
    parents = {name: run.data.tags.get("mlflow.parentRunId") for name, run in found.items()}
    assert parents["sample"] is None
    assert parents["n007"] == found["n005"].info.run_id
    assert parents["n004"] == found["n003"].info.run_id
    assert {parents[name] for name in ("n000", "n001", "n011", "n012")} == {found["sample"].info.run_id}


def test_metrics_have_trls_names_steps_and_values(mirrored):
    view, _ = mirrored
    runs = view.paths.root.parent
    found = stored(runs)
    for key in ("reward", "frac_reward_zero_std", "probe/accuracy", "completions/clipped_ratio"):
        assert history(runs, found["n007"], key) == view.metrics("n007").series(key)
    assert history(runs, found["n007"], "score/dev") == [(60, view.tree["n007"].score("dev"))]
    assert len(history(runs, found["n003"], "reward")) == 15


def test_the_studys_run_has_picture_report_and_figures(mirrored):
    view, tracker = mirrored
    run = stored(view.paths.root.parent)["sample"]
    assert run.data.metrics["confirmed_gain/mean"] == pytest.approx(view.summary["confirmed_gain"]["mean"])
    assert run.data.tags["mlflow.note.content"].startswith("**Search paid: +4.6 points")
    folder = view.paths.root.parent / "mlruns" / run.info.run_id / "artifacts"
    assert sorted(path.name for path in folder.iterdir()) == [
        "report.html",
        "study.toml",
        "tree.html",
        "tree.svg",
    ]
    assert tracker.uri == default_uri(view.paths.root.parent)


def test_mirroring_again_changes_nothing_here_or_in_a_new_process(mirrored):
    view, tracker = mirrored
    runs = view.paths.root.parent
    before = {name: (run.info.run_id, run.data.metrics, run.data.tags) for name, run in stored(runs).items()}
    tracker.mirror(view)
    fresh = MlflowTracker(runs)
    fresh.mirror(view)
    assert fresh.last_error is None
    assert {
        name: (run.info.run_id, run.data.metrics, run.data.tags) for name, run in stored(runs).items()
    } == before
    assert len(history(runs, stored(runs)["n007"], "reward")) == 60


def test_a_running_study_is_followed_step_by_step(runs):
    root = write_running_study(runs / "running")
    tracker = MlflowTracker(runs)
    tracker.mirror(StudyView.read(root))
    assert stored(runs)["n009"].info.status == "RUNNING"
    metrics = root / "nodes" / "n009" / "1" / "metrics.jsonl"
    with metrics.open("a", encoding="utf-8") as stream:
        stream.write(
            dumps({"schema_version": 1, "step": 35, "reward": "NaN", "time": 1.8e9, "note": "x"}) + "\n"
        )
    tracker.mirror(StudyView.read(root))
    steps = [step for step, _ in history(runs, stored(runs)["n009"], "reward")]
    assert steps == list(range(1, 36))
    assert tracker.last_error is None


def test_the_last_rows_of_a_node_that_ended_between_two_ticks_are_not_lost(runs):
    root = write_running_study(runs / "running")
    tracker = MlflowTracker(runs)
    tracker.mirror(StudyView.read(root))
    with (root / "nodes" / "n009" / "1" / "metrics.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(dumps({"schema_version": 1, "step": 35, "reward": 0.5, "time": 1.8e9}) + "\n")
    Journal(root / "journal.jsonl").append(
        "node_state", {"node": "n009", "state": "failed", "reason": "by hand"}
    )
    tracker.mirror(StudyView.read(root))
    run = stored(runs)["n009"]
    assert run.info.status == "FAILED"
    assert history(runs, run, "reward")[-1] == (35, 0.5)


def test_a_new_attempt_replaces_the_run_of_the_crashed_one(runs):
    study = SampleStudy(runs / "crashing")
    study.start()
    study.base()
    node = study.seed(Purpose.CAREFUL, 11)
    study.run(node, 20)
    tracker = MlflowTracker(runs)
    tracker.mirror(StudyView.read(study.root))
    first = stored(runs)[node].info.run_id
    study.emit("job_settled", job_id=f"{node}.1", node=node, device_s=13.0, status="crashed")
    study.emit("node_state", node=node, state="queued", reason="attempt 1 crashed")
    study.run(node, 10, level=(0.2, 0.3))
    for one in (tracker, MlflowTracker(runs)):
        one.mirror(StudyView.read(study.root))
        run = stored(runs)[node]
        assert run.info.run_id != first
        assert run.data.tags["autotrainer.attempt"] == "2"
        assert history(runs, run, "reward") == StudyView.read(study.root).metrics(node).series("reward")


def test_a_study_of_the_same_name_that_was_removed_is_another_study(runs):
    first = SampleStudy(runs / "same")
    first.start()
    MlflowTracker(runs).mirror(StudyView.read(first.root))
    shutil.rmtree(first.root)
    second = SampleStudy(runs / "same", now=first.now + 1000)
    second.start()
    MlflowTracker(runs).mirror(StudyView.read(second.root))
    import mlflow

    client = mlflow.MlflowClient(default_uri(runs))
    experiment = client.get_experiment_by_name("autotrainer/math").experiment_id
    assert len(client.search_runs([experiment])) == 2
