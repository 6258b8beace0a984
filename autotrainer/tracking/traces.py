"""The calls of a language model as MLflow traces, each attached to the run of the node that it decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from autotrainer.errors import ContractError
from autotrainer.files import read_json
from autotrainer.study.view import StudyView
from autotrainer.tree.event import Event

CALL = "autotrainer.call"
"""Tag: study and number of the call; a trace that is there is never written again."""


def push_traces(client: Any, experiment: str, view: StudyView, runs: Mapping[str, str]) -> None:
    """Write the traces that MLflow lacks.

    Args:
        client: an MlflowClient.
        experiment: the experiment's id.
        view: the study.
        runs: MLflow's run ids by node; "" is the study's own run, for calls that decided no node.
    """
    calls = [event for event in view.events if event.kind == "llm_settled"]
    if not calls:
        return
    nodes = {
        str(event.data["decision"]): str(event.data["node"])
        for event in view.events
        if event.kind == "llm_decision"
    }
    known = _known(client, experiment, view)
    with _to(client.tracking_uri):
        for event in calls:
            name = f"{view.config.id}:{event.data['call']}"
            node = nodes.get(str(event.data["decision"]))
            if name in known or node is None:
                continue  # a call whose decision is still under way is written once that is taken
            _write(client, experiment, view, event, name, runs.get(node, runs[""]))


@contextmanager
def _to(uri: str) -> Iterator[None]:
    """MLflow exports traces to the process's tracking URI, whatever the client's is: set it for as long."""
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)


def _known(client: Any, experiment: str, view: StudyView) -> set[str]:
    found: set[str] = set()
    token = None
    while token != "":
        page = client.search_traces(
            locations=[experiment],
            filter_string=f"tag.`autotrainer.study` = '{view.config.id}'",
            max_results=500,
            include_spans=False,
            page_token=token,
        )
        found |= {trace.info.tags.get(CALL, "") for trace in page}
        token = page.token or ""
    return found


def _write(client: Any, experiment: str, view: StudyView, event: Event, name: str, run: str) -> None:
    data, asked, answer = event.data, [], None
    try:
        row = read_json(view.paths.root / "llm" / str(data["transcript"]))
        asked, answer = row["request"]["messages"], row["answer"]
    except (OSError, ContractError, KeyError):
        answer = "(the transcript is gone)"
    end = int(event.time * 1e9)
    span = client.start_trace(
        name=f"{data['decision']} {data['role']}",
        span_type="LLM",
        inputs={"messages": asked},
        attributes={
            "model": str(data["model"]),
            "usd": data["usd"],
            "cached": data["cached"],
            "prompt_tokens": data["prompt_tokens"],
            "completion_tokens": data["completion_tokens"],
        },
        tags={CALL: name, "autotrainer.study": view.config.id, "autotrainer.decision": str(data["decision"])},
        experiment_id=experiment,
        start_time_ns=end - int(float(data["seconds"]) * 1e9),
        run_id=run,
    )
    client.end_trace(
        span.trace_id,
        outputs=answer if not data["error"] else {"error": data["error"], "answer": answer},
        status="ERROR" if data["error"] else "OK",
        end_time_ns=end,
    )
