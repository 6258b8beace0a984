"""The stages that made a checkpoint, from the base model on, as their jobs ran them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotrainer.contract.models import JobSpec
from autotrainer.errors import ConfigError
from autotrainer.study.view import StudyView


@dataclass(frozen=True, slots=True)
class Segment:
    """One stage of the path.

    `stage` is job.json's; of its steps the first `steps` belong to the path. `before` counts the job's steps
    before the stage, `seed` is what the harness seeds the stage with. `workspace` is the node whose copy of
    the harness ran it.
    """

    stage: dict[str, Any]
    steps: int
    before: int
    seed: int
    workspace: str
    forked: bool
    """Whether the stage goes on from a checkpoint; else it starts from the base model."""

    @property
    def horizon(self) -> int:
        """Steps that the learning rate's schedule was made for."""
        return int(self.stage["steps"])


def segments(view: StudyView, node_id: str, step: int | None = None) -> tuple[Segment, ...]:
    """The stages from the base model to a node's checkpoint (default: its last).

    Raises:
        ConfigError: the node was never trained, or its job resumed another one exactly.
    """
    node = view.tree[node_id]
    if not node.attempt or not node.last_step:
        raise ConfigError(f"{node_id} has no checkpoint: it is {node.state}; give a node that was trained")
    job = JobSpec.read(view.paths.job(node.job_id) / "job.json")
    if job.start.mode == "exact":
        raise ConfigError(
            f"{node_id} resumes {job.start.node} exactly; give {job.start.node}, or a node after it"
        )
    before: tuple[Segment, ...] = ()
    if job.start.mode == "weights":
        if job.start.node is None:
            raise ConfigError(f"{node_id} starts from {job.start.path}, which is no node of this study")
        before = segments(view, job.start.node, job.start.step)
    return before + of_job(job, node.last_step if step is None else step, sum(item.steps for item in before))


def of_job(job: JobSpec, until: int, path_steps: int = 0) -> tuple[Segment, ...]:
    """The stages of one job up to its step `until`; `path_steps` lie before the job."""
    found: list[Segment] = []
    done = 0
    for stage in job.stages:
        steps = min(int(stage["steps"]), until - done)
        if steps <= 0:
            break
        found.append(
            Segment(dict(stage), steps, done, job.seed + path_steps + done, job.node, path_steps + done > 0)
        )
        done += steps
    return tuple(found)
