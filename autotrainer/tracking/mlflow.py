"""MlflowTracker: a study as MLflow runs, nested like its tree (docs/mlflow.md).

Every node is a run under its parent's run; the base model and its children hang under the study's own run,
which has the picture, the report and study.toml. Runs are found again by their tags, so nothing but the
study's files is needed to go on, here or on an empty server. Weights never go to MLflow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from autotrainer.contract.metrics import Metrics
from autotrainer.errors import ContractError
from autotrainer.study.view import StudyView
from autotrainer.tracking import links, records
from autotrainer.tracking.links import default_uri
from autotrainer.tracking.records import RunRecord
from autotrainer.tracking.traces import push_traces
from autotrainer.tree.node import Node
from autotrainer.ui.report import render_report, render_tree_page
from autotrainer.ui.tree_picture import tree_picture

BATCH = 1000
"""Metrics of one request: MLflow's own limit."""
_RETRY_S, _MAX_RETRY_S = 15.0, 600.0
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
}
_Client: TypeAlias = Any  # mlflow ships no usable types


@dataclass
class _Run:
    """What MLflow is known to have of one run."""

    id: str
    attempt: int = 0
    digest: str = ""
    logged_step: int = 0
    read_size: int = -1
    """Size of metrics.jsonl when it was last read."""


@dataclass
class _Mirror:
    """What MLflow is known to have of one study: only a cache of its answers."""

    experiment: str
    runs: dict[str, _Run] = field(default_factory=dict)
    seq: int = 0
    artifacts: dict[str, int] = field(default_factory=dict)


class MlflowTracker:
    """Mirrors the studies of a folder; see Tracker for what it promises.

    Metrics are logged once: each run says in a tag up to which step, and a point has the time of its row, so
    that repeating a batch changes nothing. A new attempt of a crashed node replaces the node's run.
    """

    def __init__(
        self, runs: Path, *, uri: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Mirror to `uri`, by default to the folder's own database; opened when it is first needed."""
        self.uri = uri or default_uri(runs)
        self.last_error: str | None = None
        self._artifacts = None if uri else (runs.resolve() / "mlruns").as_uri()
        self._clock = clock
        self._client: _Client = None
        self._mirrors: dict[Path, _Mirror] = {}
        self._behind: dict[Path, StudyView] = {}
        self._wait_s, self._not_before = _RETRY_S, float("-inf")

    def mirror(self, view: StudyView) -> None:
        """Bring MLflow up to the view. After a failure it rests a while: a dead server costs little."""
        if self._clock() >= self._not_before:
            self._attempt(view)
        else:
            self._behind[view.paths.root] = view

    def close(self) -> None:
        """Try once more for the studies that MLflow is behind on, and let go of the client."""
        for view in list(self._behind.values()):
            self._attempt(view)
        self._client = None

    def _attempt(self, view: StudyView) -> None:
        root = view.paths.root
        try:
            self._mirror(view)
        except _failures() as error:
            # The boundary to a service that the study must survive: it is asked again what it has.
            self.last_error = f"{type(error).__name__}: {error}".strip()
            self._behind[root] = view
            self._mirrors.pop(root, None)
            self._not_before = self._clock() + self._wait_s
            self._wait_s = min(_MAX_RETRY_S, 2 * self._wait_s)
        else:
            self.last_error = None
            self._behind.pop(root, None)
            self._wait_s, self._not_before = _RETRY_S, float("-inf")

    def _mirror(self, view: StudyView) -> None:
        if not view.events:
            return
        mirror = self._mirrors.get(view.paths.root)
        if mirror is None:
            mirror = self._mirrors[view.paths.root] = self._find(view)
        fresh = view.events[mirror.seq :]
        touched = {event.data.get("node") for event in fresh}
        if fresh:
            self._push(mirror, view, "", records.study_record(view), None)
            for node in view.tree.nodes:
                if node.id in touched or node.id not in mirror.runs:
                    self._push_node(mirror, view, node)
        for node in view.tree.nodes:
            unread = node.id in touched or mirror.runs[node.id].read_size < 0
            if node.attempt and (unread or not node.state.is_terminal):
                self._log_metrics(mirror, view, node)
        if fresh:
            self._log_artifacts(mirror, view)
        if any(event.kind in ("llm_settled", "llm_decision") for event in fresh):
            runs = {node: run.id for node, run in mirror.runs.items()}
            push_traces(self._client, mirror.experiment, view, runs)
            links.remember(view.paths, self.uri, mirror.experiment, mirror.runs[""].id)
        mirror.seq = len(view.events)

    def _find(self, view: StudyView) -> _Mirror:
        """What MLflow has of the study already."""
        client = self._open()
        name = f"autotrainer/{view.config.task}"
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            tags = {"mlflow.experimentKind": "custom_model_development"}
            experiment_id = client.create_experiment(name, artifact_location=self._artifacts, tags=tags)
        else:
            if experiment.lifecycle_stage == "deleted":
                client.restore_experiment(experiment.experiment_id)
            experiment_id = experiment.experiment_id
        mirror, token = _Mirror(experiment_id), None
        identity = records.study_record(view).tags
        wanted = " and ".join(f"tags.`{key}` = '{identity[key]}'" for key in (records.STUDY, records.CREATED))
        while token != "":
            page = client.search_runs(
                [experiment_id], filter_string=wanted, max_results=1000, page_token=token
            )
            for run in page:
                tags = run.data.tags
                mirror.runs[tags[records.NODE]] = _Run(
                    run.info.run_id,
                    int(tags.get(records.ATTEMPT, 0)),
                    tags.get(records.DIGEST, ""),
                    int(tags.get(records.LOGGED_STEP, 0)),
                )
            token = page.token or ""
        return mirror

    def _open(self) -> _Client:
        if self._client is None:
            for key, value in _ENVIRONMENT.items():
                os.environ.setdefault(key, value)
            from mlflow.tracking import MlflowClient

            self._client = MlflowClient(tracking_uri=self.uri)
        return self._client

    def _push_node(self, mirror: _Mirror, view: StudyView, node: Node) -> None:
        known = mirror.runs.get(node.id)
        if known is not None and known.logged_step and node.attempt > known.attempt:
            self._client.delete_run(known.id)
            del mirror.runs[node.id]
        record = records.node_record(view, node)
        self._push(mirror, view, node.id, record, mirror.runs[record.parent or ""].id)
        run = mirror.runs[node.id]
        if run.attempt != node.attempt:
            run.attempt, run.read_size = node.attempt, -1

    def _push(
        self, mirror: _Mirror, view: StudyView, key: str, record: RunRecord, parent_run: str | None
    ) -> None:
        """Make the run what the record says; the digest is written last, so a broken push is repeated."""
        from mlflow.entities import Param, RunTag

        known, digest = mirror.runs.get(key), record.digest
        if known is not None and known.digest == digest:
            return
        if known is None:
            tags = {**record.tags, **({records.PARENT_RUN: parent_run} if parent_run else {})}
            run = self._client.create_run(
                mirror.experiment, start_time=record.start_ms, tags=tags, run_name=record.name
            )
            known = mirror.runs[key] = _Run(run.info.run_id)
        elif record.name:
            self._client.update_run(known.id, name=record.name)
        params = [Param(name, value) for name, value in record.params.items()]
        self._client.log_batch(known.id, metrics=_metrics(record.points), params=params)
        if record.end_ms is not None:
            self._client.set_terminated(known.id, status=record.status, end_time=record.end_ms)
        else:
            self._client.update_run(known.id, status=record.status)
        tags = {**record.tags, records.DIGEST: digest}
        self._client.log_batch(known.id, tags=[RunTag(name, value) for name, value in tags.items()])
        known.digest = digest

    def _log_metrics(self, mirror: _Mirror, view: StudyView, node: Node) -> None:
        """Log the rows of metrics.jsonl that MLflow has not seen."""
        from mlflow.entities import RunTag

        run, path = mirror.runs[node.id], view.paths.job(node.job_id) / "metrics.jsonl"
        size = path.stat().st_size if path.is_file() else 0
        if size == run.read_size:
            return
        metrics: Metrics = view.metrics(node.id)
        started = int(1000 * view.events[0].time)
        points = [
            point
            for row in metrics.rows
            if row["step"] > run.logged_step
            for point in records.metric_points(row, started)
        ]
        batches = [points[place : place + BATCH] for place in range(0, len(points), BATCH)]
        for batch in batches:
            last = batch is batches[-1]
            tags = [RunTag(records.LOGGED_STEP, str(metrics.last_step))] if last else []
            self._client.log_batch(run.id, metrics=_metrics(batch), tags=tags)
        run.logged_step, run.read_size = max(run.logged_step, metrics.last_step), size

    def _log_artifacts(self, mirror: _Mirror, view: StudyView) -> None:
        """Put what is new of study.toml, the picture and, once the study rests, the report on its run."""
        picture = tree_picture(view)
        texts = {
            "study.toml": view.config.to_toml(),
            "tree.svg": picture,
            "tree.html": render_tree_page(view, picture),
        }
        if view.state in ("finished", "paused"):
            texts["report.html"] = render_report(view, picture)
        for name, content in texts.items():
            if mirror.artifacts.get(name) != hash(content):
                self._client.log_text(mirror.runs[""].id, content, name)
                mirror.artifacts[name] = hash(content)


def _metrics(points: Any) -> list[Any]:
    from mlflow.entities import Metric

    return [Metric(point.key, point.value, point.time_ms, point.step) for point in points]


def _failures() -> tuple[type[Exception], ...]:
    """What a tracking server, its database or its disk may raise, and what a malformed metrics.jsonl does."""
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    return (MlflowException, RequestException, SQLAlchemyError, OSError, ContractError)
