"""Disk: before it is full old checkpoints go, and where that is not enough the study pauses."""

from __future__ import annotations

import shutil

from autotrainer.study.runtime import Runtime
from autotrainer.study.stop_file import StopFile
from autotrainer.tree.node import Node
from autotrainer.tree.state import NodeState

GIB = 2**30


def watch_disk(runtime: Runtime) -> None:
    """Keep `budget.min_free_gib` free: retention first, then a pause that says why."""
    wanted = runtime.config.budget.min_free_gib
    if _free_gib(runtime) >= wanted or runtime.should_stop():
        return
    for node in runtime.tree.nodes:
        if _free_gib(runtime) >= wanted:
            return
        retire(runtime, node)
    free = _free_gib(runtime)
    if free < wanted:
        reason = f"the disk is nearly full: {free:.2f} GiB are free, budget.min_free_gib is {wanted:g}"
        runtime.record("note", text=reason, data={"trouble": "disk"})
        StopFile(runtime.paths.root).ask(reason)


def retire(runtime: Runtime, node: Node) -> None:
    """Delete the checkpoints of an ended node that nothing needs: all but the last and those forked from.

    A pruned node's stay: its repair starts from one of them. The journal says what is left before anything is
    deleted, so that nothing is forked from a checkpoint that is gone.
    """
    if not node.state.is_terminal or node.state is NodeState.PRUNED or node.outcome is None:
        return
    needed = {node.last_step} | {
        other.proposal.start.step for other in runtime.tree.nodes if other.proposal.start.node == node.id
    }
    kept = [step for step in node.outcome.checkpoints if step in needed]
    if len(kept) == len(node.outcome.checkpoints):
        return
    removed = [step for step in node.outcome.checkpoints if step not in needed]
    runtime.record("checkpoints_removed", node=node.id, kept=kept)
    for step in removed:
        shutil.rmtree(runtime.paths.checkpoint(node.job_id, step), ignore_errors=True)


def _free_gib(runtime: Runtime) -> float:
    return shutil.disk_usage(runtime.paths.root).free / GIB
