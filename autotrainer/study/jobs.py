"""Specs of the jobs that a study starts: training, preparing, smoke."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotrainer.contract.models import JobSpec, LaunchSpec, ModelSpec, StartSpec
from autotrainer.executors.base import Resources
from autotrainer.executors.environment import job_environment
from autotrainer.recipe.compile import job_stages
from autotrainer.recipe.recipe import Recipe
from autotrainer.study.runtime import Runtime
from autotrainer.study.tasks import sandbox_environment
from autotrainer.tree.node import Node
from autotrainer.workspace.digest import frozen_digests

PHASE_LIMITS_S = {"start": 300.0, "load": 600.0, "probe": 600.0, "checkpoint": 600.0, "finish": 600.0}
"""A job that stays longer in one of these phases hangs; the wall limit bounds the others."""


def resources(runtime: Runtime) -> Resources:
    """One slot: a whole device; the executor chooses which."""
    device = "cpu" if runtime.budget.is_cpu else "cuda"
    return Resources(device=device, devices=(), threads=1 if runtime.budget.is_cpu else 4)


def start_spec(runtime: Runtime, node: Node) -> StartSpec:
    """The node's start with the path of the checkpoint behind it."""
    start = node.proposal.start
    if start.mode == "base" or start.node is None or start.step == 0:
        return StartSpec(mode="base")
    path = runtime.paths.checkpoint(runtime.tree[start.node].job_id, start.step)
    return StartSpec(mode=start.mode, node=start.node, step=start.step, path=str(path))


def training_job(runtime: Runtime, node: Node, attempt: int) -> JobSpec:
    """job.json of a node's attempt."""
    job_id = f"{node.id}.{attempt}"
    return job_spec(
        runtime,
        job_id=job_id,
        node=node.id,
        attempt=attempt,
        recipe=node.proposal.recipe,
        start=start_spec(runtime, node),
        workspace=runtime.paths.workspace(node.id),
        wall_s=wall_limit(runtime, node.proposal.recipe.steps),
    )


def job_spec(
    runtime: Runtime,
    *,
    job_id: str,
    node: str,
    attempt: int,
    recipe: Recipe,
    start: StartSpec,
    workspace: Path,
    wall_s: float,
) -> JobSpec:
    """job.json for a recipe; the probe is scored ten times a job, a checkpoint left three times."""
    paths, own = runtime.paths, resources(runtime)
    length = max(
        int(stage.knobs.get("max_completion_length", runtime.max_completion_length))
        for stage in recipe.stages
    )
    every = max(1, min(stage.steps for stage in recipe.stages))
    return JobSpec(
        job_id=job_id,
        study=runtime.config.id,
        node=node,
        attempt=attempt,
        seed=recipe.seed,
        model=ModelSpec(
            name=runtime.config.model,
            path=runtime.model_path,
            dtype="float32" if runtime.budget.is_cpu else "bfloat16",
        ),
        task=runtime.config.task,
        start=start,
        stages=job_stages(recipe, own.device),
        data={
            "train": str(paths.data / "train.jsonl"),
            "probe": str(paths.data / "probe.jsonl"),
            "manifest": str(paths.manifest),
        },
        probe={"every": max(2, every // 6), "n": 128, "max_completion_length": length},
        checkpoints={"every": max(2, every // 3)},
        rollouts={"every": 1, "max_rows": 64},
        limits={"wall_s": wall_s, "phase_s": PHASE_LIMITS_S},
        resources={"device": own.device, "devices": list(own.devices), "threads": own.threads},
        output=str(paths.job(job_id)),
        frozen=frozen_digests(workspace),
    )


def wall_limit(runtime: Runtime, steps: int) -> float:
    """Seconds after which a job is stopped: as asked, or three times the estimate, at least two minutes."""
    if runtime.config.budget.wall_s is not None:
        return runtime.config.budget.wall_s
    return max(120.0, 3.0 * runtime.plan.cost.job_s(steps))


def launch(
    runtime: Runtime,
    job_id: str,
    module: str,
    spec_file: str,
    *,
    workspace: Path,
    wall_s: float,
    hide: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    spec: Mapping[str, Any] | None = None,
    network: bool | None = None,
) -> None:
    """Write spec and launch.json of a job and submit it; one that was submitted before is attached to."""
    directory = runtime.paths.job(job_id)
    directory.mkdir(parents=True, exist_ok=True)
    if spec is not None:
        from autotrainer.files import write_json

        write_json(directory / spec_file, spec)
    own = resources(runtime)
    scratch = directory / "tmp"
    scratch.mkdir(exist_ok=True)
    LaunchSpec(
        job_id=job_id,
        argv=[runtime.python, "-m", module, str(directory / spec_file)],
        cwd=str(workspace),
        env={
            **job_environment(own, workspace),
            **sandbox_environment(runtime.config),
            "TMPDIR": str(scratch),
            "TRITON_CACHE_DIR": str(scratch / "triton"),
        },
        wall_s=wall_s,
        heartbeat_stale_s=runtime.config.budget.heartbeat_stale_s,
        phase_s=PHASE_LIMITS_S,
        hide=[str(path) for path in hide],
        writable=[str(directory), *(str(path) for path in writable)],
        network=needs_network(runtime) if network is None else network,
    ).write(directory / "launch.json")
    runtime.executor.submit(job_id, directory, own)


def needs_network(runtime: Runtime) -> bool:
    """Whether the model is not on this machine, so that a job has to fetch it."""
    return not Path(runtime.model_path).is_dir()


def default_python() -> str:
    """The interpreter that jobs run with."""
    return sys.executable
