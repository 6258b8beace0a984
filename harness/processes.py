"""Several processes of one job (`accelerate launch`): who writes, and how values reach everyone. Frozen.

Rank and number of processes are read from the launcher's environment variables, so that they are known
before torch is imported. Values travel through torch's process group once there is one.
"""

from __future__ import annotations

import os
from typing import Any


def rank() -> int:
    """This process's number, from 0."""
    return int(os.environ.get("RANK", "0"))


def world() -> int:
    """How many processes the job has."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this is the process that writes."""
    return rank() == 0


def launch_fault() -> str:
    """Why the launcher's environment is not what was meant; empty where it is.

    `accelerate launch --cpu --num_processes 2` starts one process, without a word, unless there is MPI.
    """
    environment = os.environ
    alone = "WORLD_SIZE" not in environment and "MASTER_ADDR" in environment
    if alone and environment.get("ACCELERATE_USE_CPU", "").lower() == "true":
        return (
            "accelerate launch --cpu started one process of several: use accelerate launch --multi_gpu "
            "--num_processes N, which with resources.device = 'cpu' runs on the CPU (gloo)"
        )
    return ""


def gather(value: Any) -> list[Any]:
    """The values of all processes, by rank, on every process. A collective: every process calls it."""
    if world() == 1:
        return [value]
    import torch.distributed as dist

    found: list[Any] = [None] * world()
    dist.all_gather_object(found, value)
    return found


def from_main(value: Any) -> Any:
    """The main process's value, on every process. A collective: every process calls it."""
    if world() == 1:
        return value
    import torch.distributed as dist

    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def wait() -> None:
    """Wait for all processes."""
    if world() == 1:
        return
    import torch.distributed as dist

    dist.barrier()
