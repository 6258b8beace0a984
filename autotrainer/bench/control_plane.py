"""The control plane at 10,000 nodes: select and persist a proposal; replay of a journal of 100,000 events.

The tree is invented (no training), the journal real: every proposal is written and fsynced on this machine's
disk.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from autotrainer.bench.base import BenchOptions
from autotrainer.budget.ledger import Ledger
from autotrainer.planners.base import planning_rng
from autotrainer.recipe.careful import careful_recipe
from autotrainer.recipe.recipe import Recipe
from autotrainer.search.base import SearchContext
from autotrainer.search.puct import Puct
from autotrainer.tree.event import Event
from autotrainer.tree.journal import Journal
from autotrainer.tree.proposal import Edge, Proposal, Purpose, Start
from autotrainer.tree.score import Score
from autotrainer.tree.tree import Tree

NODES, SELECTIONS, MAX_DEPTH = 10_000, 300, 30


def run(options: BenchOptions) -> dict[str, Any]:
    """Build a tree, time selections with their journal writes, then time a replay."""
    size = options.seeds or NODES
    events = list(invented_events(size))
    options.progress(f"{len(events)} events of {size} nodes")
    seconds = _replay_seconds(events)
    selections = _selection_seconds(events)
    selections.sort()
    p99 = selections[min(len(selections) - 1, int(0.99 * len(selections)))]
    return {
        "figures": {
            "select_and_persist_p99_s": p99,
            "select_and_persist_s": {
                "median": selections[len(selections) // 2],
                "low": selections[0],
                "high": selections[-1],
                "n": len(selections),
            },
            "nodes": size,
            "replay_s": seconds,
            "replayed_events": len(events),
        },
        "rows": [{"seconds": value} for value in selections],
    }


def invented_events(nodes: int) -> Iterator[Event]:
    """The journal of a study of so many nodes, ten events each."""
    rng, seq = Random(11), 0
    careful = careful_recipe("tiny", "math", 0, 60, 8)
    depth, ids = {"n000": 0}, ["n000"]

    def event(kind: str, **data: Any) -> Event:
        nonlocal seq
        seq += 1
        return Event(seq - 1, float(seq), kind, data)

    yield event("study_started", granted=1e9, deadline=1e12)
    yield event(
        "node_proposed", node="n000", index=0, proposal=proposal_of(careful, None, Purpose.BASE).to_json()
    )
    yield event("node_queued", node="n000", harness="")
    yield event("node_state", node="n000", state="evaluating", reason="")
    yield event("node_scored", node="n000", step=0, split="dev", score=score(0.3), device_s=1.0)
    yield event("node_state", node="n000", state="completed", reason="")
    for index in range(1, nodes):
        node = f"n{index:03d}"
        parent = "n000" if index < 40 or rng.random() < 0.1 else rng.choice(ids)
        if depth[parent] >= MAX_DEPTH - 1:
            parent = "n000"
        depth[node] = depth[parent] + 1
        ids.append(node)
        recipe = careful.with_knobs({"learning_rate": 1e-4 * 3.0 ** rng.uniform(-1, 1)})
        proposal = proposal_of(recipe, parent, Purpose.CAREFUL if index <= 2 else Purpose.SEARCH)
        yield event("node_proposed", node=node, index=index, proposal=proposal.to_json())
        yield event("node_queued", node=node, harness="0" * 40)
        yield event("job_submitted", node=node, attempt=1, job_id=f"{node}.1", device_s=10.0)
        yield event("job_settled", node=node, job_id=f"{node}.1", device_s=9.0, status="completed")
        yield event("node_trained", node=node, outcome=_outcome())
        yield event("node_finding", node=node, finding=_finding())
        yield event("node_state", node=node, state="evaluating", reason="trained")
        level = 0.3 + 0.01 * depth[node] + rng.gauss(0.0, 0.02)
        yield event("node_scored", node=node, step=60, split="dev", score=score(level), device_s=1.0)
        yield event("node_state", node=node, state="completed", reason="scored")
        yield event("note", text="a line for people", data={})


def proposal_of(recipe: Recipe, parent: str | None, purpose: Purpose) -> Proposal:
    """A proposal from a parent's last checkpoint; without a parent the base."""
    root = parent in (None, "n000")
    edge = Edge.BASE if parent is None else Edge.DRAFT if root else Edge.TRANSITION
    return Proposal(
        edge=edge,
        purpose=purpose,
        parents=() if parent is None else (parent,),
        start=Start() if root else Start("weights", parent, 60),
        recipe=recipe,
        hypothesis="invented",
        planner="bench",
    )


def score(level: float) -> dict[str, Any]:
    """A score without items."""
    return Score("dev", {}, 4, (0,), level, level - 0.02, level + 0.02, level, 512).summary()


def _outcome() -> dict[str, Any]:
    return {
        "status": "completed",
        "reason": "",
        "steps": 60,
        "device_s": 9.0,
        "checkpoints": [20, 40, 60],
        "start_report": {},
    }


def _finding() -> dict[str, Any]:
    return {
        "kind": "healthy",
        "pathology": "P30",
        "severity": "info",
        "confidence": 0.7,
        "onset_step": 1,
        "message": "nothing wrong",
        "evidence": [],
        "confirm": "",
        "told_from": [],
        "kills": False,
    }


def _replay_seconds(events: list[Event]) -> float:
    """Seconds to read a journal file of these events and fold it into tree and ledger."""
    from autotrainer.files import dumps

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_text("".join(dumps(event.to_json()) + "\n" for event in events), encoding="utf-8")
        began = time.perf_counter()
        journal = Journal(path, read_only=True)
        Tree.replay(journal)
        Ledger.replay(journal)
        return time.perf_counter() - began


def _selection_seconds(events: list[Event]) -> list[float]:
    """Seconds of a selection and of its proposal's way into the journal, with nodes that end in between."""
    tree, policy, found = Tree.replay(events), Puct(), []
    careful = careful_recipe("tiny", "math", 0, 60, 8)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal.jsonl")
        for number in range(SELECTIONS):
            index = len(tree)
            context = SearchContext(0.7, planning_rng(0, index), 3, MAX_DEPTH, NODES, 10.0)
            began = time.perf_counter()
            parent = policy.select(tree, context) or "n000"
            proposal = proposal_of(replace(careful, seed=number), parent, Purpose.SEARCH)
            journal.append(
                "node_proposed",
                {"node": f"n{index}", "index": index, "proposal": proposal.to_json()},
                check=tree.apply,
            )
            found.append(time.perf_counter() - began)
            _finish(tree, f"n{index}", index)
    return found


def _finish(tree: Tree, node: str, index: int) -> None:
    """The node runs and is scored."""
    steps = (
        ("node_queued", {"harness": ""}),
        ("job_submitted", {"attempt": 1, "job_id": f"{node}.1", "device_s": 1.0}),
        ("node_trained", {"outcome": _outcome()}),
        ("node_state", {"state": "evaluating", "reason": ""}),
        ("node_scored", {"score": score(0.3 + 1e-5 * index)}),
        ("node_state", {"state": "completed", "reason": ""}),
    )
    for kind, data in steps:
        tree.apply(Event(0, 0.0, kind, {"node": node, **data}))
