"""The devices of this machine: CPU cores and NVIDIA GPUs, counted by the kind that a budget names."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from autotrainer.budget.grammar import BudgetSpec
from autotrainer.errors import ConfigError

ANY_GPU = "GPU"
"""The kind that every NVIDIA device is of."""


def cpu_cores() -> int:
    """The CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpu_names() -> tuple[str, ...]:
    """The product names of the NVIDIA GPUs, by index; empty without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver, or a driver without a device
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
    finally:
        pynvml.nvmlShutdown()


def busy_devices() -> frozenset[int]:
    """The indices of the NVIDIA GPUs on which some process computes; empty without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return frozenset()
    try:
        handles = {
            index: pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        }
        return frozenset(
            index for index, handle in handles.items() if pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        )
    except pynvml.NVMLError:  # a device that cannot be asked is taken for free
        return frozenset()
    finally:
        pynvml.nvmlShutdown()


def is_kind(name: str, kind: str) -> bool:
    """Whether a GPU of that product name is what a budget calls `kind`.

    The words of the kind stand in the name one after the other: H100 is in `NVIDIA H100 80GB HBM3` and not in
    `NVIDIA GH100`; RTX-4090 is in `NVIDIA GeForce RTX 4090`.
    """
    if kind.upper() == ANY_GPU:
        return True
    wanted, words = _words(kind), _words(name)
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1))


def count_devices(kind: str) -> int:
    """How many devices of a kind are here; `CPU` means cores."""
    if kind.upper() == "CPU":
        return cpu_cores()
    return sum(is_kind(name, kind) for name in gpu_names())


def describe_devices() -> str:
    """What is here, for a person: `2 CPU cores and no NVIDIA GPU`."""
    cores = cpu_cores()
    counts = Counter(gpu_names())
    gpus = ", ".join(f"{number} {name}" for name, number in sorted(counts.items())) or "no NVIDIA GPU"
    return f"{cores} CPU core{'' if cores == 1 else 's'} and {gpus}"


def require_devices(budget: BudgetSpec) -> None:
    """Refuse a budget of devices that are not there.

    Raises:
        ConfigError: there are fewer of that kind; the message says what is here and what to do.
    """
    found = count_devices(budget.kind)
    if found >= budget.devices:
        return
    what = "CPU cores" if budget.is_cpu else f"{budget.kind} devices"
    raise ConfigError(
        f"budget {budget.text} asks for {budget.devices} {what}, this machine has {describe_devices()}: add "
        f"--dry-run to see the plan for it, or give one that fits, as in --budget {_fitting(budget, found)}"
    )


def _fitting(budget: BudgetSpec, found: int) -> str:
    """A budget that this machine can pay for, with the time that was asked for where the kind is here."""
    if found:
        return f"{found}x{budget.kind}x{budget.text.rpartition('x')[2]}"
    return f"{cpu_cores()}xCPUx30m"


def _words(text: str) -> Sequence[str]:
    return [word for word in re.split(r"[^A-Z0-9]+", text.upper()) if word]


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
