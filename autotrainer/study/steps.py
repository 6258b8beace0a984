"""The steps of one tick of the loop: plain functions of the runtime, each idempotent.

A step reads the journal's fold and the jobs' files, and records what follows. A crash between any two lines
leaves a journal from which the next tick goes on: job submission is keyed by the job's id, evaluation by its
request, settling by the job's id.
"""

from __future__ import annotations

from autotrainer.contract.models import JobResult
from autotrainer.errors import (
    BudgetExceededError,
    ContractError,
    EvaluationError,
    ExecutorError,
    PlannerError,
    PlannerWaitingError,
    WorkspaceError,
)
from autotrainer.executors.base import JobState
from autotrainer.search.base import SearchContext
from autotrainer.search.repairs import OUT_OF_MEMORY, next_repair, out_of_memory
from autotrainer.search.schedule import Advance, Propose, next_move, proposals_for_confirmation
from autotrainer.study import diagnose
from autotrainer.study.integrity import edit_reasons
from autotrainer.study.jobs import launch, training_job, wall_limit
from autotrainer.study.runtime import Runtime
from autotrainer.tree.node import Node, Outcome
from autotrainer.tree.proposal import Edge, Proposal, Purpose, Start
from autotrainer.tree.state import NodeState, Validity
from autotrainer.tree.tree import Tree

_NO_NEW_WORK = ("done",)
MAX_HANGS = 2
"""Attempts of a node that hangs; then it is the recipe or the harness, not the machine."""


def base_proposal(runtime: Runtime) -> Proposal:
    """The root: the base model itself."""
    return Proposal(
        edge=Edge.BASE,
        purpose=Purpose.BASE,
        parents=(),
        start=Start(),
        recipe=runtime.careful,
        hypothesis="the base model, before any training",
        planner="study",
    )


def propose_base(runtime: Runtime) -> None:
    """Put the base model into the tree, once."""
    if len(runtime.tree) == 0:
        runtime.record("node_proposed", node="n000", index=0, proposal=base_proposal(runtime).to_json())


def collect_jobs(runtime: Runtime) -> None:
    """Take in every job that ended; submit again what a crash of ours left between journal and executor."""
    for node in runtime.tree.with_state(NodeState.RUNNING):
        state = runtime.job(node.job_id).state()
        if state is JobState.PENDING:
            submit(runtime, node, node.attempt)
        elif state in (JobState.DONE, JobState.LOST):
            _take_in(runtime, node)


def _take_in(runtime: Runtime, node: Node) -> None:
    directory = runtime.paths.job(node.job_id)
    try:
        result = JobResult.read(directory / "result.json")
    except FileNotFoundError:
        result = JobResult(
            job_id=node.job_id,
            status="crashed",
            reason="the job and its supervisor vanished",
            written_by="supervisor",
        )
    except ContractError as error:
        result = JobResult(job_id=node.job_id, status="failed", reason=f"unreadable result: {error}")
    usage = runtime.job(node.job_id).usage()
    device_s = usage.device_seconds if usage is not None else result.device_seconds
    if node.job_id not in runtime.ledger.settled_jobs:
        runtime.record(
            "job_settled", job_id=node.job_id, node=node.id, device_s=device_s, status=result.status
        )
    if node.outcome is None and (result.status != "crashed" or out_of_memory(result)):
        runtime.record("node_trained", node=node.id, outcome=_outcome(runtime, node, result).to_json())
    _check_frozen(runtime, node, result)
    if out_of_memory(result):
        diagnose.record_out_of_memory(runtime, runtime.tree[node.id], result)
    diagnose.record_findings(runtime, runtime.tree[node.id])
    state, reason = _next_state(runtime, runtime.tree[node.id], result)
    runtime.record("node_state", node=node.id, state=str(state), reason=reason)


def _outcome(runtime: Runtime, node: Node, result: JobResult) -> Outcome:
    settled = runtime.ledger.settled_jobs
    device_s = sum(cost for job, cost in settled.items() if job.rpartition(".")[0] == node.id)
    return Outcome(
        status=result.status,
        reason=result.reason,
        steps=result.steps,
        checkpoints=tuple(sorted(checkpoint.step for checkpoint in result.checkpoints)),
        device_s=device_s,
        start_report=result.start or {},
    )


def _check_frozen(runtime: Runtime, node: Node, result: JobResult) -> None:
    if reasons := edit_reasons(runtime, node):
        runtime.record(
            "node_validity", node=node.id, validity=str(Validity.INVALID), reason="; ".join(reasons[:3])
        )
        return
    if result.status == "crashed" or result.written_by != "run" or not result.frozen_after:
        return
    expected = runtime.paths.job(node.job_id) / "job.json"
    from autotrainer.files import read_json

    frozen = read_json(expected)["frozen"]
    if result.frozen_before != frozen or result.frozen_after != frozen:
        changed = sorted(path for path in frozen if result.frozen_after.get(path) != frozen[path])
        runtime.record(
            "node_validity",
            node=node.id,
            validity=str(Validity.INVALID),
            reason=f"frozen files changed during the run: {', '.join(changed) or 'before it'}",
        )


def _next_state(runtime: Runtime, node: Node, result: JobResult) -> tuple[NodeState, str]:
    if result.status == "completed":
        return NodeState.EVALUATING, "trained to its step limit"
    if result.status == "stopped":
        return (
            (NodeState.PRUNED, node.kill_reason) if node.kill_reason else (NodeState.CANCELLED, result.reason)
        )
    if result.status == "failed" or out_of_memory(result):
        return NodeState.FAILED, result.reason
    if stopping(runtime):
        return NodeState.CANCELLED, f"crashed while the study was stopping: {result.reason}"
    if node.attempt >= MAX_HANGS and "hung" in result.reason:
        return NodeState.FAILED, f"attempt {node.attempt} hung again: {result.reason}"
    if node.attempt >= runtime.config.search.max_attempts:
        return NodeState.CRASHED, f"attempt {node.attempt} crashed: {result.reason}"
    return NodeState.QUEUED, f"attempt {node.attempt} crashed: {result.reason}"


def wanted_splits(runtime: Runtime, node: Node) -> tuple[str, ...]:
    """The splits that a node is scored on before it counts as completed."""
    if node.proposal.purpose in (Purpose.CONFIRM, Purpose.CONTROL, Purpose.BASE):
        return ("dev", "holdout")
    return ("dev",)


def request_scores(runtime: Runtime, node: Node, splits: tuple[str, ...]) -> bool:
    """Ask for the splits a node lacks and record what was answered; true once all are there."""
    missing = [split for split in splits if split not in node.scores]
    for split in missing:
        request = runtime.evaluator.request(
            node.id,
            node.last_step,
            split,
            model_path(runtime, node),
            n=runtime.config.evaluation.dev_items if split == "dev" else 0,
            samples=runtime.config.evaluation.samples,
            temperature=runtime.config.evaluation.temperature,
            max_completion_length=runtime.max_completion_length,
            seed=runtime.config.seed,
        )
        answer = runtime.evaluator.poll(request)
        if answer is not None:
            score = runtime.evaluator.score(answer)
            runtime.record(
                "node_scored",
                node=node.id,
                step=node.last_step,
                split=split,
                score=score.summary(),
                device_s=answer.device_seconds,
            )
    return all(split in runtime.tree[node.id].scores for split in splits)


def model_path(runtime: Runtime, node: Node) -> str:
    """The folder (or hub id) of the node's last model."""
    if node.proposal.edge is Edge.BASE:
        return runtime.model_path
    return str(runtime.paths.checkpoint(node.job_id, node.last_step))


def collect_scores(runtime: Runtime) -> None:
    """Score the nodes that wait for it."""
    for node in runtime.tree.with_state(NodeState.EVALUATING):
        try:
            if request_scores(runtime, node, wanted_splits(runtime, node)):
                runtime.record("node_state", node=node.id, state=str(NodeState.COMPLETED), reason="scored")
        except EvaluationError as error:
            runtime.record(
                "node_state", node=node.id, state=str(NodeState.FAILED), reason=f"evaluation: {error}"
            )


def free_slots(runtime: Runtime) -> int:
    """Slots without a node.

    A node keeps its slot until it is scored: what is proposed next does not depend on timing.
    """
    return runtime.plan.slots - len(runtime.tree.active)


def stopping(runtime: Runtime) -> bool:
    """Whether a person has asked the study to stop or to judge what it has, or the deadline has passed."""
    deadline = runtime.ledger.deadline
    late = deadline is not None and runtime.clock() >= deadline
    return runtime.should_stop() or runtime.should_finish() or late


def stop_reason(runtime: Runtime) -> str:
    """Why a study that is stopping stops."""
    if runtime.should_stop():
        return runtime.stop_reason() or "stopped by a person"
    return "a person asked for the verdict now" if runtime.should_finish() else "the deadline has passed"


def wind_down(runtime: Runtime) -> None:
    """Where the study is stopping: cancel queued nodes, ask running jobs to leave a checkpoint and end."""
    if not stopping(runtime):
        return
    reason = stop_reason(runtime)
    for node in runtime.tree.with_state(NodeState.PROPOSED, NodeState.QUEUED):
        if node.proposal.edge is not Edge.BASE:
            runtime.record("node_state", node=node.id, state=str(NodeState.CANCELLED), reason=reason)
    for node in runtime.tree.with_state(NodeState.RUNNING):
        diagnose.request_stop(runtime, node.job_id, reason, now=False)


def plan_next(runtime: Runtime) -> None:
    """Fill the free slots with proposals, phase by phase."""
    for _ in range(1000):
        phase = runtime.view().phase
        if stopping(runtime) or phase in ("test", *_NO_NEW_WORK) or free_slots(runtime) <= 0:
            return
        if phase == "confirm":
            propose_confirmation(runtime)
        move = next_move(
            runtime.tree, runtime.ledger, runtime.plan, phase, runtime.config.search, runtime.clock()
        )
        if isinstance(move, Advance):
            runtime.record("phase", phase=move.phase, reason=move.reason, confirm_seeds=move.confirm_seeds)
        elif isinstance(move, Propose):
            if not _propose(runtime, move):
                return
        else:
            return


def _propose(runtime: Runtime, move: Propose) -> bool:
    repair = next_repair(runtime.tree)
    if repair is not None:
        proposal = repair
    elif move.purpose is Purpose.CAREFUL:
        proposal = careful_proposal(runtime)
    else:
        spent = spent_nodes(runtime.tree, runtime.plan.steps)
        progress = spent / max(1, runtime.plan.max_nodes)
        context = SearchContext(
            progress=min(1.0, progress),
            rng=runtime.planning_context().rng,
            drafts=runtime.plan.drafts,
            max_depth=runtime.plan.max_depth,
            nodes=runtime.plan.max_nodes,
            rounds_left=max(0.0, (runtime.plan.max_nodes - spent) / runtime.plan.slots),
        )
        parent = runtime.policy.select(runtime.tree, context)
        if parent is None:
            return False
        try:
            proposal = runtime.planner.propose(runtime.planning_context(), parent)
        except PlannerWaitingError:
            return False
        except PlannerError as error:
            if runtime.tree.active:
                return False
            runtime.record("phase", phase="confirm", reason=f"the planner has nothing left to offer: {error}")
            return True
    add_node(runtime, proposal)
    return True


def spent_nodes(tree: Tree, steps: int) -> float:
    """Nodes of the search that were paid for, in whole ones: one that was stopped early counts as a part.

    In steps and not in seconds, so that two equal studies decide equally.
    """
    nodes = tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL)
    return sum(node.outcome.steps if node.outcome else node.proposal.recipe.steps for node in nodes) / steps


def careful_proposal(runtime: Runtime) -> Proposal:
    """The next seed of the careful recipe."""
    from dataclasses import replace

    rng = runtime.planning_context().rng
    return Proposal(
        edge=Edge.DRAFT,
        purpose=Purpose.CAREFUL,
        parents=("n000",),
        start=Start(),
        recipe=replace(runtime.careful, seed=rng.randrange(2**31)),
        planner="study",
        hypothesis="the careful recipe on one more seed: the baseline that search has to beat",
    )


def propose_confirmation(runtime: Runtime) -> None:
    """Put the finalists' and the control's fresh seeds into the tree, also those that a crash left out."""
    asked = runtime.tree.with_purpose(Purpose.CONFIRM, Purpose.CONTROL)
    known = sum(OUT_OF_MEMORY not in node.proposal.treats for node in asked)
    phase = runtime.view().last("phase")
    proposals = proposals_for_confirmation(
        runtime.tree,
        runtime.plan,
        runtime.careful,
        runtime.config.seed,
        seeds=phase.data.get("confirm_seeds") if phase is not None else None,
    )
    for proposal in proposals[known:]:
        add_node(runtime, proposal)
    while (repair := next_repair(runtime.tree)) is not None:
        add_node(runtime, repair)


def add_node(runtime: Runtime, proposal: Proposal) -> None:
    """Write a proposal into the tree."""
    index = len(runtime.tree)
    runtime.record("node_proposed", node=f"n{index:03d}", index=index, proposal=proposal.to_json())


def launch_queued(runtime: Runtime) -> None:
    """Build workspaces and submit jobs while slots and budget last."""
    for node in runtime.tree.with_state(NodeState.PROPOSED):
        _build(runtime, node)
    running = len(runtime.tree.with_state(NodeState.RUNNING, NodeState.EVALUATING))
    for node in runtime.tree.with_state(NodeState.QUEUED):
        if node.proposal.edge is Edge.BASE:
            runtime.record(
                "node_state", node=node.id, state=str(NodeState.EVALUATING), reason="nothing to train"
            )
            running += 1
        elif running < runtime.plan.slots and not stopping(runtime):
            running += _start(runtime, node)


def _build(runtime: Runtime, node: Node) -> None:
    if node.proposal.edge is Edge.BASE:
        runtime.record("node_queued", node=node.id, harness="")
        return
    try:
        commit = runtime.build(runtime.paths, node.id, node.proposal, runtime.tree, runtime.library)
    except WorkspaceError as error:
        runtime.record("node_state", node=node.id, state=str(NodeState.FAILED), reason=str(error))
        return
    runtime.record("node_queued", node=node.id, harness=commit)


def _start(runtime: Runtime, node: Node) -> int:
    attempt = node.attempt + 1
    device_s = runtime.plan.cost.job_s(node.proposal.recipe.steps)
    try:
        runtime.ledger.check(f"{node.id}.{attempt}", device_s)
    except BudgetExceededError as error:
        runtime.record("node_state", node=node.id, state=str(NodeState.CANCELLED), reason=str(error))
        return 0
    runtime.record(
        "job_submitted", node=node.id, attempt=attempt, job_id=f"{node.id}.{attempt}", device_s=device_s
    )
    submit(runtime, node, attempt)
    return 1


def submit(runtime: Runtime, node: Node, attempt: int) -> None:
    """Write an attempt's job.json and launch.json and hand it to the executor; safe to repeat.

    Where the executor cannot start it now (no supervisor, no free device) that is noted once and the next
    tick tries again: the node waits, the study goes on.
    """
    job_id = f"{node.id}.{attempt}"
    directory = runtime.paths.job(job_id)
    directory.mkdir(parents=True, exist_ok=True)
    training_job(runtime, node, attempt).write(directory / "job.json")
    try:
        launch(
            runtime,
            job_id,
            "harness.run",
            "job.json",
            workspace=runtime.paths.workspace(node.id),
            wall_s=wall_limit(runtime, node.proposal.recipe.steps),
            hide=[runtime.paths.vault],
        )
    except ExecutorError as error:
        text = f"{job_id} could not be started: {error}"
        if not any(event.kind == "note" and event.data["text"] == text for event in runtime.journal):
            runtime.record("note", text=text, data={"trouble": "executor", "job": job_id})
