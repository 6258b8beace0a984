"""The calls of a language model are traces on the run of the node that they decided, written once."""

from pathlib import Path

import pytest

from autotrainer.files import write_json
from autotrainer.study.config import StudyConfig
from autotrainer.study.view import StudyView
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tracking.mlflow import MlflowTracker
from autotrainer.tree.journal import Journal

pytestmark = pytest.mark.slow


def test_a_call_is_a_trace_on_the_run_of_its_node_and_is_written_once(tmp_path: Path):
    root = tmp_path / "runs" / "s"
    (root / "llm").mkdir(parents=True)
    config = StudyConfig.build({"id": "s", "task": "math", "model": "tiny", "budget_text": "2xCPUx6m"})
    (root / "study.toml").write_text(config.to_toml(), encoding="utf-8")
    builder = TreeBuilder()
    builder.base()
    builder.node()
    journal = Journal(root / "journal.jsonl")
    journal.append("study_created", {"study": "s", "seed": 0, "config": config.model_dump(mode="json")})
    for event in builder.events:
        journal.append(event.kind, dict(event.data))
    journal.append(
        "llm_settled",
        {
            "call": 1,
            "usd": 0.01,
            "model": "m",
            "role": "proposer",
            "decision": "d001",
            "cached": False,
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "seconds": 1.0,
            "error": "",
            "transcript": "00001.json",
        },
    )
    journal.append("llm_decision", {"decision": "d001", "node": "n001", "outcome": "accepted", "reason": ""})
    messages = [{"role": "user", "content": "decide"}]
    write_json(root / "llm" / "00001.json", {"request": {"messages": messages}, "answer": "yes"})
    trackers = []
    for _ in range(2):
        trackers.append(MlflowTracker(root.parent))
        trackers[-1].mirror(StudyView.read(root))
        assert trackers[-1].last_error is None
    client = trackers[-1]._client
    (experiment,) = [e for e in client.search_experiments() if e.name == "autotrainer/math"]
    (trace,) = client.search_traces(locations=[experiment.experiment_id])
    (run,) = client.search_runs([experiment.experiment_id], filter_string="tags.`autotrainer.node` = 'n001'")
    assert trace.info.request_metadata["mlflow.sourceRun"] == run.info.run_id
    assert trace.data.spans[0].inputs == {"messages": messages}
    assert trace.data.spans[0].outputs == "yes"
