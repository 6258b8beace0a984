"""Repairs that need no planner: a run that was out of memory is asked for again in smaller passes.

The optimiser step sees the same completions (compile.py cuts them into passes), so the recipe is the same.
One that has failed at `micro_batch` 1, or whose third repair failed, is given up.
"""

from __future__ import annotations

from dataclasses import replace

from autotrainer.contract.models import JobResult
from autotrainer.recipe.compile import trl_arguments
from autotrainer.search.frontier import MAX_REPAIRS
from autotrainer.tree.finding import Evidence, Finding, Severity
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Edge, Proposal, Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

OUT_OF_MEMORY = "out_of_memory"
_ERRORS = ("OutOfMemoryError", "MemoryError")


def out_of_memory(result: JobResult) -> bool:
    """Whether a job ended because device or host memory was too small for it."""
    return result.failure is not None and result.failure.type in _ERRORS


def memory_finding(node: Node, result: JobResult) -> Finding:
    """The finding of a job that was out of memory."""
    where = "host" if result.failure is not None and result.failure.type == "MemoryError" else "device"
    size = float(pass_size(node))
    return Finding(
        kind=OUT_OF_MEMORY,
        pathology="P29",
        severity=Severity.CRITICAL,
        confidence=1.0,
        onset_step=result.steps,
        message=f"out of {where} memory after step {result.steps} with {size:.0f} completions a pass",
        evidence=(Evidence("micro_batch", (0, result.steps), size, size),),
        confirm="the same recipe with half as many completions a pass runs",
    )


def pass_size(node: Node) -> int:
    """Completions in one pass of the node's last stage, on a GPU."""
    stage = node.proposal.recipe.stages[-1]
    return int(trl_arguments(stage, "cuda")["per_device_train_batch_size"])


def is_repairable(tree: Tree, node: Node) -> bool:
    """Whether a node failed for memory and smaller passes may help."""
    failed = node.state is NodeState.FAILED
    found = any(finding.kind == OUT_OF_MEMORY for finding in node.findings)
    return failed and found and pass_size(node) > 1 and _repairs_before(tree, node) < MAX_REPAIRS


def next_repair(tree: Tree) -> Proposal | None:
    """The repair that is due: of the first node that was out of memory and has none yet."""
    repaired = {node.proposal.finding_node for node in tree.nodes if OUT_OF_MEMORY in node.proposal.treats}
    for node in tree.nodes:
        if node.id not in repaired and is_repairable(tree, node):
            return _repair(node)
    return None


def proven_micro_batch(tree: Tree) -> int | None:
    """Half the smallest pass that was out of memory, for what is proposed from now on; None: none was."""
    failed = [
        pass_size(node)
        for node in tree.nodes
        if any(finding.kind == OUT_OF_MEMORY for finding in node.findings)
    ]
    return max(1, min(failed) // 2) if failed else None


def _repair(node: Node) -> Proposal:
    old, size = node.proposal, pass_size(node)
    smaller = max(1, size // 2)
    recipe = old.recipe
    for index in range(len(recipe.stages)):
        recipe = recipe.with_knobs({"micro_batch": smaller}, index)
    return replace(
        old,
        edge=Edge.REPAIR if old.purpose is Purpose.SEARCH else old.edge,
        recipe=recipe,
        treats=(OUT_OF_MEMORY,),
        finding_node=node.id,
        planner="study",
        hypothesis=f"{node.id} fits into memory with {smaller} completions a pass instead of {size}",
        predictions=(),
    )


def _repairs_before(tree: Tree, node: Node) -> int:
    count = 0
    while OUT_OF_MEMORY in node.proposal.treats and node.proposal.finding_node is not None:
        count, node = count + 1, tree[node.proposal.finding_node]
    return count
