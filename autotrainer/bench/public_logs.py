"""What public logs show, by the start of their names: their owners' word or their collector's reading."""

from __future__ import annotations

_CLASSES: dict[str, set[str]] = {
    "xling_": {"P13"},
    "chaos": {"P04"},
    "wordle4070_lr5e-3_entropy": {"P12"},
    "wordle4070_lr5e-3_cap16": {"P03", "P01", "P12"},
    "wordle4070_constant": {"P01"},
    "wordle4070_lr5e-4": {"P09"},
    "wordle4070_lr5e-5_long": {"P11"},
    "wordle4070_lr1e-5_no": {"P03"},
    "wordle4070_lr1e-6": {"P01"},
    "finqa": {"P09", "P01"},
    "grpodyn_gate": {"P03"},
    "exp1a_rho1.00_seed42": {"P10", "P04"},
    "exp1a_rho1.00_seed43": {"P10", "P04"},
    "exp2_adabalance": {"P10", "P04"},
    "exp1a_rho0.10_seed43": {"P10", "P04"},
}
_UNCLEAR = ("exp1a_rho5.00_seed42", "wordle4070_lr5e-5_run300")
"""Runs that nobody calls healthy or lost."""
_HEALTHY = ("exp1a_", "exp2_", "unsloth", "gemma3", "recgrpo", "wordle_lara", "wordle4070_lr5e-5_learning",
            "wordle4070_lr1e-5_best")  # fmt: skip


def truth_of(name: str) -> frozenset[str] | None:
    """The classes of a log, H for healthy; None where nothing is known or it is unclear."""
    if name.startswith(_UNCLEAR):
        return None
    for beginning, classes in _CLASSES.items():
        if name.startswith(beginning):
            return frozenset(classes)
    return frozenset({"H"}) if name.startswith(_HEALTHY) else None
