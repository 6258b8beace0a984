"""The budget's grammar: `8xH100x24h` is N devices of kind D for a time T."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotrainer.errors import ConfigError

_PATTERN = re.compile(
    r"^(?P<n>\d+)x(?P<device>[A-Za-z][A-Za-z0-9-]*?)x(?P<time>\d+(?:\.\d+)?)(?P<unit>[smhd])$"
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """What was granted: `devices` of `kind` (CPU means one core each) until `seconds` after the start."""

    text: str
    devices: int
    kind: str
    seconds: float

    @property
    def device_s(self) -> float:
        """The grant in device-seconds."""
        return self.devices * self.seconds

    @property
    def is_cpu(self) -> bool:
        """Whether the devices are CPU cores."""
        return self.kind == "CPU"


def parse_budget(text: str) -> BudgetSpec:
    """The budget behind `NxDxT`.

    Raises:
        ConfigError: the text is not of that form, or N or T is zero.
    """
    match = _PATTERN.match(text.strip())
    if match is None:
        raise ConfigError(
            f"budget {text!r} is not of the form NxDxT: devices, kind, time with s, m, h or d, "
            "as in 2xCPUx6m or 8xH100x24h"
        )
    devices, seconds = int(match["n"]), float(match["time"]) * _SECONDS[match["unit"]]
    if devices < 1 or seconds <= 0:
        raise ConfigError(f"budget {text!r} grants nothing: it needs at least 1 device and a time above 0")
    return BudgetSpec(text.strip(), devices, match["device"].upper(), seconds)
