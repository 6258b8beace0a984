"""Found: what an importer read out of a file, before it becomes a study.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Found:
    """Settings by their place in a study.toml, remarks on changes, and what was not understood."""

    source: Path
    values: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    """Every setting that was not understood, with its value or expression as text."""
    rewards: list[str] = field(default_factory=list)

    def not_understood(self, name: str, value: object) -> None:
        """Note a setting that has no place in a study."""
        self.unknown[name] = str(value)

    def remark(self, text: str) -> None:
        """Note that a setting came in under another name or value."""
        self.remarks.append(text)
