"""Training dynamics of the simulated world: from a state, a stage and a seed to metrics and states.

A step gains skill in proportion to the learning rate, to the groups that are neither all right nor all wrong,
and to what is left to learn. Above a stable rate, which falls as the policy gets better, damage adds up until
the policy runs away. Exploration is spent as the policy gains, answers lengthen where nothing stops them, and
a gameable reward is found sooner the faster the policy moves. Each has its levers, as in the public cases.
Pure: equal arguments give equal curves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import exp, log, pow, sqrt
from random import Random
from typing import Any

from autotrainer.files import SCHEMA_VERSION
from autotrainer.simulation.levers import Levers
from autotrainer.simulation.policy import PolicyState, accuracy, cut_share, sigmoid, solve_rates
from autotrainer.simulation.surface import Surface

PROBE_ITEMS = 128
LOST = 3.0
"""Damage at which nothing is left."""
_OBJECTIVES = {"dapo": 1.0, "grpo": 0.97, "bnpo": 0.98, "dr_grpo": 1.0, "cispo": 1.0, "sapo": 0.98}
_HACK_START = 0.02


class Run:
    """One simulated job: call `step` once for every optimiser step.

    `state` is the policy's after the last one.
    """

    def __init__(self, surface: Surface, start: PolicyState, levers: Levers, steps: int, seed: int) -> None:
        """A run of `steps` steps from `start`."""
        self._rng = Random(f"run {seed}")
        self._surface, self._levers, self._steps = surface, levers, steps
        self._luck = exp(surface.seed_deviation * self._rng.gauss(0.0, 1.0))
        offset = self._rng.gauss(0.0, surface.fixed_deviation) if surface.fixed_deviation else start.offset
        self.state = replace(start, offset=offset)
        self._done = 0

    def step(self) -> dict[str, float]:
        """Take a step and return its metrics under TRL's names."""
        self._done += 1
        state, levers, surface = self.state, self._levers, self._surface
        rate = levers.rate_at(self._done, self._steps) / surface.best_rate
        sharpness = 1 / (sqrt(max(state.entropy, 0.01)) * levers.temperature)
        rates = solve_rates(surface, state.skill, sharpness)
        cut = cut_share(surface, state.length, levers.cap_growth)
        group = levers.group * (1.5 if "hooks/rl_zvp.py" in levers.hooks else 1.0)
        spoilt = (1 - cut) * exp(-2.0 * state.damage)
        solved = [chance * spoilt for chance in rates]
        mixed = sum(1 - chance**group - (1 - chance) ** group for chance in solved) / len(solved)
        signal = (
            2
            * sum(
                (1 - chance**group - (1 - chance) ** group) * sqrt(chance * (1 - chance)) for chance in solved
            )
            / len(solved)
        )
        gain = self._move(rate, signal, cut, mixed)
        return self._metrics(rate, solved, mixed, cut, gain)

    def _move(self, rate: float, signal: float, cut: float, mixed: float) -> float:
        """Update the state; returns the skill gained."""
        state, levers, surface = self.state, self._levers, self._surface
        mastery = min(1.0, max(0.0, state.skill / surface.ceiling))
        stable = surface.room / (1 + surface.late * mastery)
        stable *= pow(levers.completions, 0.25) * (1.15 if levers.max_grad_norm <= 0.5 else 1.0)
        excess = rate / stable
        strength = rate * pow(levers.iterations, 0.5) / (1 + (rate / (1.5 * stable)) ** 2)
        anchored = 1 / (1 + 6 * levers.beta * min(4.0, state.drift))
        bonus = 1 + surface.group_gain * log(levers.group / 8, 2)
        heat = 1 - 0.6 * (levers.temperature - 1) ** 2 - 4 * max(0.0, levers.bonus - 0.01)
        gain = surface.pace * strength * signal * (1 - mastery) * anchored * bonus * max(0.0, heat)
        gain *= self._luck * _OBJECTIVES.get(levers.loss, 1.0) * (1 - 0.5 * state.hack)
        noise = surface.noise * min(rate, 3.0) * sqrt(1 / max(0.1, levers.completions))
        gain += self._rng.gauss(0.0, noise) * (0.3 + mixed)
        damage = state.damage + 0.0015 * excess**4 / (1 + excess**2)
        damage += 0.02 * pow(max(0.0, excess - 1), 1.5) * self._rng.uniform(0.5, 1.5)
        damage = damage * 1.12 if damage > 1 else damage * (1 - 0.01 * max(0.0, 1 - excess))
        self.state = PolicyState(
            skill=state.skill + (gain if state.damage < 1 else 0.0),
            entropy=self._entropy(rate, signal),
            drift=self._drift(rate, gain),
            damage=min(LOST, damage),
            length=self._length(rate, cut),
            hack=self._hack(rate),
            steps=state.steps + 1,
            offset=state.offset,
        )
        return gain

    def _entropy(self, rate: float, signal: float) -> float:
        """Spent as the policy learns; a bonus, heat, a KL penalty and (off-policy) a higher clip spare it."""
        levers, surface, entropy = self._levers, self._surface, self.state.entropy
        spared = 1 / (1 + 250 * levers.bonus + 4 * max(0.0, levers.temperature - 1) + 6 * levers.beta)
        if levers.iterations > 1:
            spared *= 0.2 / max(0.2, levers.clip_high)
        fall = surface.entropy_fall * min(rate, 3.0) * (0.3 + signal) * spared
        back = 0.6 * levers.bonus * min(rate, 2.0) * max(0.0, 1 - entropy)
        left = entropy * (1 - min(0.5, fall)) + back
        return max(0.01, min(2.5, left))

    def _drift(self, rate: float, gain: float) -> float:
        state, levers = self.state, self._levers
        grown = state.drift + self._surface.drift * (
            0.0012 * pow(min(rate, 20.0), 1.5) + 0.03 * max(0.0, gain)
        )
        return grown * (1 - min(0.5, 0.8 * levers.beta)) + 0.05 * state.damage

    def _length(self, rate: float, cut: float) -> float:
        """Grows by itself; cut answers pull it down a little, the soft penalty and token losses much more."""
        state, levers, surface = self.state, self._levers, self._surface
        grown = surface.length_growth * min(rate, 3.0) * (1.3 if levers.loss == "grpo" else 1.0)
        pull = 0.004 * min(rate, 3.0) * cut * (0.3 if levers.mask_cut else 1.0)
        if "hooks/overlong.py" in levers.hooks:
            pull += 0.05 * min(rate, 3.0) * sigmoid(4 * (cut - 0.15))
        return state.length + grown - pull

    def _hack(self, rate: float) -> float:
        surface, levers = self._surface, self._levers
        if surface.hack == 0:
            return 0.0
        share = max(_HACK_START, self.state.hack)
        slowed = 1 / (1 + 60 * levers.beta)
        return min(
            1.0,
            share + surface.hack * min(rate, 3.0) * slowed * share * (1 - share) - 0.3 * levers.beta * share,
        )

    def _metrics(
        self, rate: float, solved: list[float], mixed: float, cut: float, gain: float
    ) -> dict[str, float]:
        state, levers, surface, rng = self.state, self._levers, self._surface, self._rng
        mean = sum(solved) / len(solved)
        if surface.fixed_deviation is not None:
            mean = accuracy(surface, state)
        count = levers.prompts * levers.group
        paid = mean * (1 - surface.hack_cost * state.hack) + 0.6 * state.hack * (surface.hack > 0)
        reward = max(0.0, paid + rng.gauss(0.0, sqrt(max(1e-6, mean * (1 - mean)) / count + 0.0002 * mixed)))
        if state.damage >= LOST:
            reward, mixed = 0.0, 0.0
        ties = 1 - mixed
        observed = sum(rng.random() < ties for _ in range(levers.prompts)) / levers.prompts
        right = min(observed, ties * max(0.0, mean - 0.5 * mixed))
        chaos = 1 + 4 * min(1.0, state.damage)
        return {
            "reward": reward,
            "reward_std": sqrt(max(0.0, mean * (1 - mean))),
            "frac_reward_zero_std": observed,
            "groups/mixed": 1 - observed,
            "groups/all_correct": right,
            "groups/all_wrong": observed - right,
            "entropy": max(
                0.0, 0.6 * state.entropy * (chaos if state.damage < 2 else 0.02) + rng.gauss(0, 0.005)
            ),
            "kl": max(0.0, state.drift * (1 + rng.gauss(0.0, 0.1))),
            "grad_norm": max(0.0, (0.05 + mixed) * 0.6 * chaos * exp(rng.gauss(0.0, 0.15))),
            "loss": -gain,
            "learning_rate": rate,
            "completions/clipped_ratio": min(1.0, cut + min(1.0, max(0.0, state.damage - 0.8))),
            "completions/mean_length": exp(state.length),
            "nonfinite": 0.0,
        }


def token_share(surface: Surface, state: PolicyState, levers: Levers) -> float:
    """Tokens of a step relative to the careful recipe's first: what generation time scales with."""
    length = exp(min(state.length, levers.cap_growth - surface.need))
    return levers.completions * length * (1.0 + 0.25 * max(0.0, levers.cap_growth))


def rows(
    surface: Surface,
    start: PolicyState,
    levers: Levers,
    steps: int,
    seed: int,
    probe_every: int,
    first: int = 1,
) -> Iterator[tuple[dict[str, Any], PolicyState]]:
    """The metrics rows of a stage with the state after each; probe values as run.py logs them."""
    run, probe = Run(surface, start, levers, steps, seed), Random(f"probe {seed}")
    for done in range(steps):
        values: dict[str, Any] = run.step()
        step, state = first + done, run.state
        if step % probe_every == 0 or done == steps - 1:
            level = accuracy(surface, state)
            noise = probe.gauss(0.0, sqrt(max(1e-6, level * (1 - level)) / PROBE_ITEMS))
            values |= {"probe/accuracy": min(1.0, max(0.0, level + noise)), "kl_start": state.drift}
        yield {"schema_version": SCHEMA_VERSION, "step": step, "stage": 0, "simulated": True, **values}, state
