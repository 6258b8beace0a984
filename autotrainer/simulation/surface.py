"""Surface: what a simulated model and task are like; one family for each thing that can go wrong.

Learning rates are in units of the careful recipe's. The careful recipe's own level is calibrated on what was
measured with the shipped tiny model: sampled accuracy from about .33 to .56 in 150 steps at 1e-4, slower at
3e-5, worse at 3e-4, nothing left within 20 steps at 1e-3, a standard deviation of one to two points over
seeds. The pathologies follow the public cases in shape. None of this predicts a real model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

from autotrainer.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Surface:
    """The hidden facts of one simulated model and task.

    Attributes:
        family: what goes wrong.
        start: mean logit of the base model over prompts.
        spread: standard deviation of the prompts' difficulties, in logits.
        ceiling: logits between the base model and the best that training can reach.
        pace: logits a step at the best learning rate with all groups mixed.
        best_rate: learning rate at which a step gains most, early in training.
        room: how many times the best rate the policy stands before damage sets in.
        late: how much the stable learning rate falls from the start to mastery (0: not at all).
        entropy_fall: speed at which exploration is lost.
        need: log of the tokens a good answer needs over the task's cap, at the base model.
        length_growth: speed at which answers lengthen where nothing stops them.
        hack: speed at which a gameable shaping reward is found (0: there is none).
        hack_cost: accuracy lost, as a share, once it is exploited fully.
        drift: how fast the policy leaves the base model.
        group_gain: what larger groups are worth beyond more mixed groups.
        noise: step-to-step noise, in logits at the best rate and 64 completions.
        seed_deviation: lognormal deviation of a run's pace over seeds.
        fixed_deviation: for A/A worlds: recipes do nothing; the deviation of the accuracy over seeds.
    """

    family: str
    start: float = -0.85
    spread: float = 1.6
    ceiling: float = 2.6
    pace: float = 0.022
    best_rate: float = 1.3
    room: float = 2.6
    late: float = 0.4
    entropy_fall: float = 0.012
    need: float = -1.2
    length_growth: float = 0.0
    hack: float = 0.0
    hack_cost: float = 0.8
    drift: float = 1.0
    group_gain: float = 0.0
    noise: float = 0.012
    seed_deviation: float = 0.06
    fixed_deviation: float | None = None


def _jitter(rng: Random, surface: Surface) -> Surface:
    """The same kind of surface for another model and task."""
    return replace(
        surface,
        start=surface.start + rng.gauss(0.0, 0.25),
        spread=surface.spread * 2.0 ** rng.uniform(-0.4, 0.4),
        ceiling=surface.ceiling * 2.0 ** rng.uniform(-0.4, 0.4),
        pace=surface.pace * 2.0 ** rng.uniform(-0.5, 0.5),
        best_rate=surface.best_rate * 2.0 ** rng.uniform(-0.7, 0.7),
        room=surface.room * 2.0 ** rng.uniform(-0.3, 0.3),
        late=surface.late * 2.0 ** rng.uniform(-0.5, 0.5),
        entropy_fall=surface.entropy_fall * 2.0 ** rng.uniform(-0.5, 0.5),
        need=surface.need + rng.gauss(0.0, 0.1),
        length_growth=surface.length_growth * 2.0 ** rng.uniform(-0.5, 0.5),
        hack=surface.hack * 2.0 ** rng.uniform(-0.5, 0.5),
        drift=surface.drift * 2.0 ** rng.uniform(-0.5, 0.5),
        noise=surface.noise * 2.0 ** rng.uniform(-0.5, 0.5),
    )


def _sparse(rng: Random) -> Surface:
    base = Surface("sparse", start=-4.0, spread=1.5, ceiling=4.2, pace=0.05, best_rate=1.6)
    return _jitter(rng, base)


def _truncation(rng: Random) -> Surface:
    return _jitter(rng, Surface("truncation", need=rng.uniform(0.0, 0.45), length_growth=0.001))


def _shaping(rng: Random) -> Surface:
    return _jitter(rng, Surface("shaping", hack=0.05, drift=1.5))


def _entropy(rng: Random) -> Surface:
    return _jitter(rng, Surface("entropy", entropy_fall=0.07))


def _halfway(rng: Random) -> Surface:
    """The rate that learns fastest at first destroys the policy once it is good."""
    return _jitter(rng, Surface("halfway", best_rate=3.0, room=2.0, late=6.0, ceiling=3.4))


def _constant(rng: Random) -> Surface:
    """The careful recipe is as good as any: nothing to find."""
    found = _jitter(rng, Surface("constant", late=0.0, entropy_fall=0.0, group_gain=-0.15))
    return replace(found, best_rate=1.0, length_growth=0.0, hack=0.0, need=-1.5)


def _too_high(rng: Random) -> Surface:
    """The careful learning rate is several times too high for this model."""
    return _jitter(rng, Surface("too-high", best_rate=rng.uniform(0.12, 0.3)))


def _too_low(rng: Random) -> Surface:
    """The careful learning rate hardly moves this model."""
    return _jitter(rng, Surface("too-low", best_rate=rng.uniform(5.0, 12.0)))


def _runaway(rng: Random) -> Surface:
    """Completions grow longer until they no longer end."""
    return _jitter(rng, Surface("runaway", length_growth=0.02, need=-0.7))


def _mixed(rng: Random) -> Surface:
    """Any parameter anywhere: what no family was written for."""
    return Surface(
        "mixed",
        start=rng.uniform(-4.0, 0.3),
        spread=rng.uniform(0.8, 2.6),
        ceiling=rng.uniform(1.2, 4.5),
        pace=0.02 * 3.0 ** rng.uniform(-1.0, 1.0),
        best_rate=1.3 * 6.0 ** rng.uniform(-1.0, 1.0),
        room=rng.uniform(1.5, 4.0),
        late=rng.choice((0.0, rng.uniform(0.0, 6.0))),
        entropy_fall=0.015 * 5.0 ** rng.uniform(-1.0, 1.0),
        need=rng.uniform(-1.6, 0.4),
        length_growth=rng.choice((0.0, rng.uniform(0.0, 0.02))),
        hack=rng.choice((0.0, 0.0, rng.uniform(0.01, 0.08))),
        drift=2.0 ** rng.uniform(-1.0, 1.0),
        group_gain=rng.uniform(0.0, 0.1),
        noise=0.012 * 2.0 ** rng.uniform(-1.0, 1.0),
        seed_deviation=rng.uniform(0.02, 0.12),
    )


FAMILIES: Mapping[str, Callable[[Random], Surface]] = MappingProxyType(
    {
        "sparse": _sparse,
        "truncation": _truncation,
        "shaping": _shaping,
        "entropy": _entropy,
        "halfway": _halfway,
        "constant": _constant,
        "too-high": _too_high,
        "too-low": _too_low,
        "runaway": _runaway,
        "mixed": _mixed,
    }
)


def draw_surface(family: str, seed: int) -> Surface:
    """A surface of the family; equal seeds give equal surfaces.

    Raises:
        ConfigError: there is no such family; the message lists them.
    """
    if family not in FAMILIES:
        raise ConfigError(f"unknown simulated surface {family!r}: known are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[family](Random(f"surface {family} {seed}"))


def same_for_all(deviation: float) -> Surface:
    """An A/A world: every recipe is worth the same, runs differ by their seed alone (`deviation` a share)."""
    return Surface("aa", fixed_deviation=deviation)
