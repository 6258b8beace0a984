"""Finding: a diagnosed pathology with its evidence. Same input, same findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self


class Severity(StrEnum):
    """How bad a finding is for the run."""

    INFO = "info"
    """Worth knowing; nothing to do."""
    WARNING = "warning"
    """The run learns less than it could."""
    CRITICAL = "critical"
    """The run is lost, or will be, unless something changes."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation behind a finding: over `steps` (first, last) `metric` had `value`, past `threshold`."""

    metric: str
    steps: tuple[int, int]
    value: float
    threshold: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What a diagnostic saw.

    `kind` is the diagnostic's name and what skills treat (`collapse`, `zero_advantage` ...); `pathology` is
    the class of the taxonomy (P01 ...). `kills` says that the finding alone is a reason to stop the run
    early.
    """

    kind: str
    pathology: str
    severity: Severity
    confidence: float
    onset_step: int
    message: str
    evidence: tuple[Evidence, ...]
    confirm: str = ""
    told_from: tuple[str, ...] = ()
    kills: bool = False

    def to_json(self) -> dict[str, Any]:
        """The finding as plain JSON values."""
        value = asdict(self)
        value["severity"] = str(self.severity)
        value["evidence"] = [{**asdict(item), "steps": list(item.steps)} for item in self.evidence]
        value["told_from"] = list(self.told_from)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The finding back from `to_json`."""
        evidence = tuple(
            Evidence(item["metric"], (item["steps"][0], item["steps"][1]), item["value"], item["threshold"])
            for item in value["evidence"]
        )
        return cls(
            kind=value["kind"],
            pathology=value["pathology"],
            severity=Severity(value["severity"]),
            confidence=value["confidence"],
            onset_step=value["onset_step"],
            message=value["message"],
            evidence=evidence,
            confirm=value["confirm"],
            told_from=tuple(value["told_from"]),
            kills=value["kills"],
        )
