from autotrainer.contract.models import JobFailure, JobResult
from autotrainer.recipe.compile import trl_arguments
from autotrainer.search.repairs import memory_finding, next_repair, out_of_memory, proven_micro_batch
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.proposal import Edge, Purpose
from autotrainer.tree.state import NodeState


def no_memory(kind: str = "OutOfMemoryError") -> JobResult:
    status = "crashed" if kind == "MemoryError" else "failed"
    return JobResult(
        job_id="n001.1", status=status, reason=kind, failure=JobFailure(type=kind, message=""), steps=3
    )


def out_of(builder: TreeBuilder, node: str) -> None:
    """Have a proposed node fail for memory."""
    builder.running(node)
    builder.trained(node, "failed", ())
    builder.found(node, [memory_finding(builder.tree[node], no_memory())])
    builder.emit("node_state", node=node, state=str(NodeState.FAILED), reason="OutOfMemoryError")


def a_search() -> tuple[TreeBuilder, str]:
    builder = TreeBuilder()
    builder.base()
    first = builder.careful_seeds(0.4)[0]
    return builder, builder.node(first, purpose=Purpose.SEARCH)


def test_errors_of_device_and_host_memory_are_told_from_others():
    assert out_of_memory(no_memory())
    assert out_of_memory(no_memory("MemoryError"))
    assert not out_of_memory(no_memory("ValueError"))
    assert not out_of_memory(JobResult(job_id="n001.1", status="crashed", reason="signal 9"))


def test_a_run_out_of_memory_is_asked_for_again_in_half_the_passes_at_the_same_batch():
    builder, node = a_search()
    out_of(builder, node)
    repair = next_repair(builder.tree)
    assert repair is not None
    assert (repair.edge, repair.finding_node, repair.purpose) == (Edge.REPAIR, node, Purpose.SEARCH)
    failed = builder.tree[node].proposal
    assert (repair.start, repair.parents, repair.recipe.seed) == (
        failed.start,
        failed.parents,
        failed.recipe.seed,
    )
    before, after = (trl_arguments(p.recipe.stages[-1], "cuda") for p in (failed, repair))
    assert after["per_device_train_batch_size"] * 2 == before["per_device_train_batch_size"]
    assert (
        after["per_device_train_batch_size"] * after["gradient_accumulation_steps"]
        == before["per_device_train_batch_size"] * before["gradient_accumulation_steps"]
    )


def test_repairs_are_made_once_each_and_three_deep():
    builder, node = a_search()
    sizes = []
    while True:
        out_of(builder, node)
        repair = next_repair(builder.tree)
        if repair is None:
            break
        node = builder.propose(repair)
        assert next_repair(builder.tree) is None
        sizes.append(repair.recipe.stages[-1].knobs["micro_batch"])
    assert sizes == [8, 4, 2]
    assert proven_micro_batch(builder.tree) == 1


def test_a_confirmation_run_is_repaired_as_a_confirmation_run():
    builder = TreeBuilder()
    builder.base()
    first = builder.careful_seeds(0.4)[0]
    found = builder.completed(builder.node(first, purpose=Purpose.SEARCH), 0.6)
    confirm = builder.node("n000", parents=("n000", found), purpose=Purpose.CONFIRM, edge=Edge.REPLICATE)
    out_of(builder, confirm)
    repair = next_repair(builder.tree)
    assert repair is not None
    assert (repair.purpose, repair.edge, repair.parents) == (Purpose.CONFIRM, Edge.REPLICATE, ("n000", found))


def test_a_run_that_failed_for_another_reason_is_left_alone():
    builder, node = a_search()
    builder.running(node)
    builder.trained(node, "failed", ())
    builder.emit("node_state", node=node, state=str(NodeState.FAILED), reason="ValueError")
    assert next_repair(builder.tree) is None
    assert proven_micro_batch(builder.tree) is None
