"""The diagnostics that ship with the package."""

from __future__ import annotations

from autotrainer.diagnostics.base import Diagnostic
from autotrainer.diagnostics.collapse import Collapse
from autotrainer.diagnostics.drift import Drift
from autotrainer.diagnostics.entropy_collapse import EntropyCollapse
from autotrainer.diagnostics.healthy import Healthy
from autotrainer.diagnostics.nonfinite import NonFinite
from autotrainer.diagnostics.reward_decline import RewardDecline
from autotrainer.diagnostics.reward_hacking import RewardHacking
from autotrainer.diagnostics.truncation import Truncation
from autotrainer.diagnostics.under_training import UnderTraining
from autotrainer.diagnostics.zero_advantage import ZeroAdvantage

_SHIPPED: tuple[Diagnostic, ...] = (
    NonFinite(),
    Truncation(),
    ZeroAdvantage(),
    UnderTraining(),
    Collapse(),
    Drift(),
    EntropyCollapse(),
    RewardDecline(),
    RewardHacking(),
    Healthy(),
)


def shipped() -> tuple[Diagnostic, ...]:
    """The diagnostics in the order in which triage asks.

    Not finite, wrong from the start, flat, falling, rising, none.
    """
    return _SHIPPED


def kinds() -> frozenset[str]:
    """The kinds of findings there are: what skills may treat."""
    return frozenset(diagnostic.kind for diagnostic in _SHIPPED)
