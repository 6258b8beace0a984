"""Kill rules: when a running node is stopped early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from autotrainer.tree.finding import Finding


class KillRule(Protocol):
    """Decides from what is known at a step. Pure; never looks at the filtered training reward."""

    name: ClassVar[str]

    def reason(self, findings: Sequence[Finding]) -> Finding | None:
        """The finding to stop the node for, or None to let it run."""
        ...


@dataclass(frozen=True, slots=True)
class FatalFinding:
    """Stop a node at the earliest finding that is itself a reason to stop."""

    name: ClassVar[str] = "fatal-finding"

    def reason(self, findings: Sequence[Finding]) -> Finding | None:
        """The killing finding of earliest onset; the surer one where onsets are equal."""
        fatal = [finding for finding in findings if finding.kills]
        return min(fatal, key=lambda finding: (finding.onset_step, -finding.confidence), default=None)
