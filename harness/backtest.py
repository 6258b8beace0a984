"""Backtest of a hook on stored rollouts: `python -m harness.backtest spec.json`. Frozen.

No GPU and no model: a reward or advantage hook sees the stored groups as it would have at scoring, a sampler
sees the pass rates of earlier steps, a rollouts hook draws from the stored completions of each prompt. What
is compared is the same before and after: the share of groups that teach nothing, rank correlations of the
reward with correctness and with length, tokens drawn. Intervals are bootstraps over groups.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from scipy import stats

from harness.contract import SCHEMA_VERSION, ContractError, HookSpec, read_json, write_json
from harness.hooks.api import (
    Draw,
    GroupInputs,
    PromptHistory,
    PromptRow,
    RewardInputs,
    RolloutInputs,
    SamplerInputs,
)
from harness.trainers.hook_loading import load_hook

_COLUMNS = [
    "step",
    "prompt_id",
    "group",
    "prompt",
    "completion",
    "tokens",
    "finish_reason",
    "reward",
    "components",
]
_RESAMPLES = 400
_TIE = 1e-6
POINTS = ("rewards", "advantages", "sampler", "rollouts")


@dataclass(frozen=True, slots=True)
class Group:
    """The stored completions of one prompt at one step."""

    step: int
    prompt_id: str
    prompt: str
    completions: tuple[str, ...]
    tokens: tuple[int, ...]
    cut: tuple[bool, ...]
    rewards: tuple[float, ...]
    components: tuple[dict[str, float], ...]

    @property
    def right(self) -> list[float]:
        """The verifier's score of each completion; NaN where it could not score."""
        return [part.get("accuracy", math.nan) for part in self.components]


def main(arguments: list[str]) -> int:
    """Run the backtest of a spec.json; the figures go to the file that it names."""
    spec = read_json(Path(arguments[0]))
    groups = stored_groups([Path(folder) for folder in spec["rollouts"]])
    if not groups:
        raise ContractError("rollouts: the folders hold no whole group")
    hook = HookSpec(spec["hook"]["point"], spec["hook"]["ref"], spec["hook"].get("params", {}))
    figures = backtest(hook, groups, int(spec["max_completion_length"]), int(spec.get("seed", 0)))
    write_json(Path(spec["output"]), {"schema_version": SCHEMA_VERSION, **figures})
    return 0


def stored_groups(folders: Sequence[Path]) -> list[Group]:
    """The whole groups in folders of rollouts, in the order of their steps; others are left out."""
    found: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.parquet")):
            for row in pq.read_table(file, columns=_COLUMNS).to_pylist():
                found.setdefault((str(folder), row["step"], row["group"]), []).append(row)
    sizes = [len(rows) for rows in found.values()]
    whole = max(set(sizes), key=sizes.count) if sizes else 0
    groups = [_group(rows) for rows in found.values() if len(rows) == whole and whole >= 2]
    return sorted((group for group in groups if group is not None), key=lambda group: group.step)


def _group(rows: list[dict[str, Any]]) -> Group | None:
    if any(row["reward"] is None for row in rows):
        return None
    components = []
    for row in rows:
        value = json.loads(row["components"])
        components.append(
            {name: float(part) for name, part in value.items() if isinstance(part, int | float)}
        )
    return Group(
        step=rows[0]["step"],
        prompt_id=rows[0]["prompt_id"],
        prompt=rows[0]["prompt"],
        completions=tuple(row["completion"] for row in rows),
        tokens=tuple(row["tokens"] for row in rows),
        cut=tuple(row["finish_reason"] == "length" for row in rows),
        rewards=tuple(row["reward"] for row in rows),
        components=tuple(components),
    )


def backtest(spec: HookSpec, groups: Sequence[Group], cap: int, seed: int) -> dict[str, Any]:
    """Figures before and after a hook.

    Raises:
        ContractError: its point cannot be replayed from stored rollouts.
    """
    hook = load_hook(spec)
    if spec.point == "rewards" and hasattr(hook, "components"):
        return _compared(groups, [_rewarded(hook, group, cap) for group in groups], seed)
    if spec.point == "advantages" and hasattr(hook, "group") and not hasattr(hook, "tokens"):
        return _advantages(hook, groups, cap, seed)
    if spec.point == "sampler":
        return _sampler(hook, groups, seed)
    if spec.point == "rollouts":
        return _drawn(hook, groups, cap, seed)
    raise ContractError(
        f"a hook at {spec.point} that needs the current policy cannot be replayed: "
        f"points are {', '.join(POINTS)}"
    )


def _rewarded(hook: Any, group: Group, cap: int) -> tuple[float, ...]:
    """A group's rewards with the hook's components added by their weights."""
    size = len(group.rewards)
    parts = {name: [part.get(name, math.nan) for part in group.components] for name in group.components[0]}
    found = hook.components(
        RewardInputs(
            step=group.step,
            prompts_N=[[{"role": "user", "content": group.prompt}]] * size,
            completions_N=group.completions,
            completion_ids_N=[[0] * count for count in group.tokens],
            prompt_ids_N=[group.prompt_id] * size,
            answers_N=[""] * size,
            columns_N=[{}] * size,
            components_N={name: torch.tensor(values) for name, values in parts.items()},
            group_size=size,
            max_completion_length=cap,
        )
    )
    weights = dict(getattr(hook, "adds", {}))
    total = np.array(group.rewards)
    for name, values in found.items():
        total = total + weights.get(name, 0.0) * np.nan_to_num(values.double().numpy())
    return tuple(float(value) for value in total)


def _compared(groups: Sequence[Group], after: Sequence[tuple[float, ...]], seed: int) -> dict[str, Any]:
    """Dead groups and rank correlations of two sets of rewards for the same completions."""
    before = [group.rewards for group in groups]
    dead_before = np.array([_ties(rewards) for rewards in before], dtype=float)
    dead_after = np.array([_ties(rewards) for rewards in after], dtype=float)
    right = [score for group in groups for score in group.right]
    tokens = [count for group in groups for count in group.tokens]
    flat = [[reward for rewards in part for reward in rewards] for part in (before, after)]
    return {
        "groups": len(groups),
        "dead_groups_before": float(dead_before.mean()),
        "dead_groups_after": float(dead_after.mean()),
        "regained": float(((dead_before == 1) & (dead_after == 0)).mean()),
        "lost": float(((dead_before == 0) & (dead_after == 1)).mean()),
        "correctness_before": _rank(flat[0], right),
        "correctness_after": _rank(flat[1], right),
        "length_before": _rank(flat[0], tokens),
        "length_after": _rank(flat[1], tokens),
        "effect": _interval(dead_before - dead_after, seed),
        "tokens_ratio": 1.0,
    }


def _advantages(hook: Any, groups: Sequence[Group], cap: int, seed: int) -> dict[str, Any]:
    """Groups without any advantage, before and after; correlations are of the advantages."""
    after, before = [], []
    for group in groups:
        rewards = torch.tensor([group.rewards], dtype=torch.float32)
        given = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        names = group.components[0]
        parts = {
            name: torch.tensor([[part.get(name, math.nan) for part in group.components]]) for name in names
        }
        out = hook.group(
            GroupInputs(
                step=group.step,
                advantages_P_G=given,
                rewards_P_G=rewards,
                components_P_G=parts,
                lengths_P_G=torch.tensor([group.tokens], dtype=torch.float32),
                truncated_P_G=torch.tensor([group.cut]),
                prompt_ids_P=[group.prompt_id],
                max_completion_length=cap,
            )
        )
        before.append(tuple(float(value) for value in given.flatten()))
        after.append(tuple(float(value) for value in out.flatten()))
    dead = [np.array([max(map(abs, row)) < _TIE for row in part], dtype=float) for part in (before, after)]
    right = [score for group in groups for score in group.right]
    tokens = [count for group in groups for count in group.tokens]
    flat = [[value for row in part for value in row] for part in (before, after)]
    return {
        "groups": len(groups),
        "dead_groups_before": float(dead[0].mean()),
        "dead_groups_after": float(dead[1].mean()),
        "regained": float(((dead[0] == 1) & (dead[1] == 0)).mean()),
        "lost": float(((dead[0] == 0) & (dead[1] == 1)).mean()),
        "correctness_before": _rank(flat[0], right),
        "correctness_after": _rank(flat[1], right),
        "length_before": _rank(flat[0], tokens),
        "length_after": _rank(flat[1], tokens),
        "effect": _interval(dead[0] - dead[1], seed),
        "tokens_ratio": 1.0,
    }


def _sampler(hook: Any, groups: Sequence[Group], seed: int) -> dict[str, Any]:
    """How often the prompts that it chooses vary, as their other visits show, against those that came."""
    ids = list(dict.fromkeys(group.prompt_id for group in groups))
    index = {name: place for place, name in enumerate(ids)}
    rates = {name: _mean([s for g in groups if g.prompt_id == name for s in g.right]) for name in ids}
    steps = sorted({group.step for group in groups})
    history: dict[int, PromptHistory] = {}
    before, after = [], []
    for number, step in enumerate(steps):
        own = [group for group in groups if group.step == step]
        proposed = tuple(index[group.prompt_id] for group in own)
        chosen = hook.choose(SamplerInputs(number, len(ids), proposed, dict(history), ids, seed + number))
        before.append(_mean([_variance(rates[ids[place]]) for place in proposed]))
        after.append(_mean([_variance(rates[ids[place]]) for place in chosen]))
        for group in own:
            rate, place = _mean(group.right), index[group.prompt_id]
            old = history.get(place)
            visits = old.visits + 1 if old else 1
            mean = ((old.pass_rate * old.visits if old else 0.0) + rate) / visits
            history[place] = PromptHistory(visits, mean, rate, 0.0)
    gain = np.array(after) - np.array(before)
    return {
        "groups": len(groups),
        "prompts": len(ids),
        "variance_before": _mean(before),
        "variance_after": _mean(after),
        "effect": _interval(gain, seed),
        "tokens_ratio": 1.0,
    }


def _drawn(hook: Any, groups: Sequence[Group], cap: int, seed: int) -> dict[str, Any]:
    """Dead groups when the hook draws from what was drawn; every draw counts as tokens."""
    rng, pool = Random(seed), _Pool(groups)
    size = len(groups[0].rewards)
    steps = sorted({group.step for group in groups})
    before, after, drawn = [], [], 0
    for number, step in enumerate(steps):
        own = [group for group in groups if group.step == step]
        count = 0

        def generate(rows: Sequence[PromptRow], model: Any = None, temperature: Any = None) -> list[Draw]:
            nonlocal count
            count += len(rows)
            return [pool.draw(row, rng) for row in rows]

        batch = hook.draw(
            RolloutInputs(
                step=step,
                batch=number,
                rows_P=[pool.row(group.prompt_id) for group in own],
                group_size=size,
                max_completion_length=cap,
                temperature=1.0,
                seed=seed + number,
                policy=None,
                generate=generate,
                score=pool.score,
                verify=pool.score,
                more=lambda wanted: [pool.any(rng) for _ in range(wanted)],
                proposed=None,
            )
        )
        rewards = pool.score(batch.draws_N)
        parts = [rewards[place : place + size] for place in range(0, len(rewards), size)]
        after.append(_mean([float(_ties(part)) for part in parts]))
        before.append(_mean([float(_ties(group.rewards)) for group in own]))
        drawn += count
    return {
        "groups": len(groups),
        "dead_groups_before": _mean(before),
        "dead_groups_after": _mean(after),
        "effect": _interval(np.array(before) - np.array(after), seed),
        "tokens_ratio": drawn / (len(groups) * size),
    }


class _Pool:
    """The stored completions by prompt, to draw from again; a stand-in for the policy, and labelled so."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._stored: dict[str, list[tuple[str, float]]] = {}
        self._prompts: dict[str, str] = {}
        for group in groups:
            self._prompts[group.prompt_id] = group.prompt
            self._stored.setdefault(group.prompt_id, []).extend(
                zip(group.completions, group.rewards, strict=True)
            )
        self._rewards: dict[int, float] = {}
        self._kept: list[Draw] = []  # an id means a draw only while it lives

    def row(self, prompt_id: str) -> PromptRow:
        return PromptRow(prompt_id, [{"role": "user", "content": self._prompts[prompt_id]}], "", {})

    def any(self, rng: Random) -> PromptRow:
        return self.row(rng.choice(sorted(self._stored)))

    def draw(self, row: PromptRow, rng: Random) -> Draw:
        text, reward = rng.choice(self._stored[row.prompt_id])
        made = Draw(row, (0,), text, None)
        self._rewards[id(made)] = reward
        self._kept.append(made)
        return made

    def score(self, draws: Sequence[Draw]) -> list[float]:
        return [self._rewards[id(draw)] for draw in draws]


def _ties(rewards: Sequence[float]) -> bool:
    return max(rewards) - min(rewards) < _TIE


def _variance(rate: float) -> float:
    """4 p (1 - p): 1 where half of a prompt's completions are right."""
    return 4.0 * rate * (1.0 - rate)


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else 0.0


def _rank(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None where one of the two does not vary."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if len({a for a, _ in pairs}) < 2 or len({b for _, b in pairs}) < 2:
        return None
    return float(stats.spearmanr([a for a, _ in pairs], [b for _, b in pairs]).statistic)


def _interval(values: Any, seed: int) -> dict[str, Any]:
    """Mean and bootstrap interval of per-group (or per-step) differences; above 0 is better."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(values), (_RESAMPLES, len(values)))
    means = np.sort(values[picks].mean(axis=1))
    return {
        "mean": float(values.mean()),
        "low": float(means[int(0.025 * _RESAMPLES)]),
        "high": float(means[int(0.975 * _RESAMPLES) - 1]),
        "n": len(values),
    }


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except (ContractError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        code = 1
    sys.exit(code)
