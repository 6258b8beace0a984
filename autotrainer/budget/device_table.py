"""What a device of a kind can do, from the vendors' data sheets; a CPU core from a measurement of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Device:
    """One device: memory in GiB, dense bf16 operations a second, bytes of memory read a second, USD an hour.

    `flops` and `bandwidth` are peaks; the shares that training and decoding reach of them are in step_time.
    `usd_per_hour` is a typical rent, for orientation only; None where nobody rents it by the hour.
    """

    kind: str
    memory_gib: float
    flops: float
    bandwidth: float
    usd_per_hour: float | None


_TABLE = (
    Device("A100", 80.0, 312e12, 2.04e12, 1.8),
    Device("H100", 80.0, 989e12, 3.35e12, 2.8),
    Device("H200", 141.0, 989e12, 4.8e12, 3.5),
    Device("B200", 180.0, 2250e12, 8.0e12, 5.0),
    Device("L40S", 48.0, 362e12, 0.864e12, 1.0),
    Device("L4", 24.0, 121e12, 0.3e12, 0.7),
    Device("A10", 24.0, 125e12, 0.6e12, 0.8),
    Device("T4", 16.0, 65e12, 0.32e12, 0.4),
    Device("V100", 32.0, 125e12, 0.9e12, 0.9),
    Device("RTX-3090", 24.0, 71e12, 0.936e12, 0.3),
    Device("RTX-4090", 24.0, 165e12, 1.008e12, 0.5),
    Device("RTX-5090", 32.0, 210e12, 1.79e12, 0.8),
    Device("GPU", 80.0, 312e12, 2.04e12, None),  # any NVIDIA device: taken for an A100
    Device("CPU", 8.0, 3e11, 1e10, None),
)
DEVICES: Mapping[str, Device] = MappingProxyType({device.kind: device for device in _TABLE})
"""The devices that estimates know, by the kind that a budget names."""


def device(kind: str) -> Device:
    """The device behind a budget's kind: `H100`, also in `H100-80GB`.

    Raises:
        KeyError: the table has none; an estimate then has nothing to go by.
    """
    wanted = kind.upper()
    if wanted in DEVICES:
        return DEVICES[wanted]
    match = [known for name, known in DEVICES.items() if wanted.startswith(f"{name}-")]
    if not match:
        raise KeyError(kind)
    return max(match, key=lambda known: len(known.kind))
