"""The cases: what is wrong, by class of the taxonomy, and healthy runs of many kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

FILE = "hooks/injected.py"
_MISMATCH = "sampler_mismatch.py:SamplerMismatch"


@dataclass(frozen=True, slots=True)
class Case:
    """One run to make: class (H: healthy), knobs, hooks as (point, class, parameters), verifier's weight."""

    id: str
    truth: str
    seed: int
    steps: int = 50
    knobs: Mapping[str, Any] = field(default_factory=dict)
    hooks: tuple[tuple[str, str, Mapping[str, Any]], ...] = ()
    verifier: float = 1.0


_ILL: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("P01", "cold", {"knobs": {"temperature": 0.1}}),
    ("P02", "constant", {"verifier": 0.0, "hooks": (("rewards", "ConstantReward", {"value": 0.5}),)}),
    ("P03", "cap", {"knobs": {"max_completion_length": 2}}),
    ("P04", "endless", {"verifier": 0.1, "hooks": (("rewards", "LengthReward", {"weight": 1.0}),)}),
    ("P05", "longer", {"verifier": 0.0, "hooks": (("rewards", "LengthReward", {"weight": 1.0}),)}),
    ("P06", "shorter", {"verifier": 0.0, "hooks": (("rewards", "LengthReward", {"weight": -1.0}),)}),
    ("P07", "proxy", {"verifier": 0.0, "hooks": (("rewards", "DigitReward", {}),)}),
    ("P08", "easy", {"verifier": 1.0, "hooks": (("rewards", "FormatReward", {}),)}),
    ("P09", "frozen", {"hooks": (("loss", "EntropyKill", {}),)}),
    ("P10", "hot", {"hooks": (("loss", "EntropyPush", {}),)}),
    ("P11", "flipped", {"hooks": (("advantages", "SignFlip", {}),), "knobs": {"beta": 0.001}}),
    ("P11", "jump", {"hooks": (("callbacks", "RateJump", {}),), "knobs": {"beta": 0.001}}),
    ("P12", "rate", {"knobs": {"learning_rate": 2e-3}}),
    ("P13", "still", {"knobs": {"learning_rate": 1e-8}, "steps": 70}),
    ("P14", "nan", {"hooks": (("loss", "NanLoss", {"step": 20}),)}),
    ("P16", "temperature", {"hooks": (("rollouts", _MISMATCH, {"kind": "temperature", "amount": 1.6}),)}),
    ("P17", "stale", {"hooks": (("rollouts", _MISMATCH, {"kind": "stale", "amount": 8}),)}),
    ("P23", "epochs", {"knobs": {"num_iterations": 12, "learning_rate": 5e-4}}),
    ("P28", "nograd", {"hooks": (("advantages", "NoGradient", {}),)}),
)  # fmt: skip


def cases(seeds: int, healthy: int) -> Iterator[Case]:
    """`seeds` runs of every illness in turn, with healthy runs between them."""
    rng, well = Random(20), iter(_healthy(healthy))
    for turn in range(seeds):
        for truth, name, changes in _ILL:
            yield Case(f"{truth.lower()}-{name}-{turn}", truth, seed=1000 + turn, **changes)
            yield from _next(well, rng.choice((1, 2, 3)))
    yield from well


def _healthy(count: int) -> Iterator[Case]:
    """Runs within what works here: rates, groups, objectives, lengths and clip ranges vary."""
    rng = Random(7)
    for index in range(count):
        group = rng.choice((4, 8, 8, 16))
        knobs: dict[str, Any] = {
            "learning_rate": rng.choice((5e-5, 1e-4, 1e-4, 1.5e-4)),
            "num_generations": group,
            "prompts_per_step": 64 // group,
            "loss_type": rng.choice(("dapo", "grpo", "dr_grpo", "bnpo")),
            "scale_rewards": rng.choice(("group", "batch")),
            "temperature": rng.choice((0.9, 1.0, 1.1)),
            "beta": rng.choice((0.0, 0.0, 0.005)),
        }
        steps = rng.choice((40, 50, 60, 80))
        yield Case(f"h-{index:03d}", "H", seed=rng.randrange(2**31), steps=steps, knobs=knobs)


def _next(source: Iterator[Case], count: int) -> Iterator[Case]:
    for _ in range(count):
        found = next(source, None)
        if found is not None:
            yield found
