from autotrainer.errors import ExecutorError
from autotrainer.study import steps
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState


def test_a_job_that_cannot_be_started_now_waits_and_is_noted_once(opened, monkeypatch):
    builder = TreeBuilder()
    builder.base()
    node = builder.running(builder.node(purpose=Purpose.CAREFUL))
    runtime = opened(builder)

    def refuse(*_: object, **__: object) -> None:
        raise ExecutorError("other processes compute on all devices (0)")

    monkeypatch.setattr(
        steps, "training_job", lambda *_: type("Spec", (), {"write": lambda self, path: None})()
    )
    monkeypatch.setattr(steps, "wall_limit", lambda *_: 60.0)
    monkeypatch.setattr(steps, "launch", refuse)
    for _ in range(3):
        steps.submit(runtime, runtime.tree[node], 1)
    notes = [event for event in runtime.journal if event.kind == "note"]
    assert [note.data["data"]["trouble"] for note in notes] == ["executor"]
    assert "n001.1 could not be started: other processes" in notes[0].data["text"]
    assert runtime.tree[node].state is NodeState.RUNNING
