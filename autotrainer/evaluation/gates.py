"""The integrity gates: whether a node's score may count. Each finding names its gate and the figures.

A node with a finding is invalid: it keeps its record and scores as its parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from autotrainer.evaluation.edits import MIN_COPIED, copied_items, edit_findings

PERTURBED_GAP = 0.10
"""Lower bound of dev minus perturbed dev from which the score is of the items, not of the skill."""
DISAGREEMENT = 0.05
"""Share of accepted completions that a second verifier refuses."""
TRAIN_DEV_GAP = 0.35
"""Training reward (the verifier's) minus dev, beyond the base model's own gap."""
WEIGHT_DISTANCE = 0.75
"""||w - base|| / ||base||: RL moves weights by far less; another model of the same shape lies near 1.4."""
OVERLAP = 0.01
"""Share of rollouts whose prompt is one of the judged items."""
TIME_TOLERANCE_S = 5.0


@dataclass(frozen=True, slots=True)
class GateFinding:
    """One reason why a node is invalid."""

    gate: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """What is known of a node that waits to be judged; None and empty where something was not measured."""

    frozen_expected: Mapping[str, str] = field(default_factory=dict)
    frozen_found: Mapping[str, str] = field(default_factory=dict)
    """Digests of the workspace after the run, taken by the control plane, not by the job."""
    edits: Mapping[str, str] = field(default_factory=dict)
    """Hook and reward files that differ from the parent's or the shipped ones, by path."""
    judged_questions: Sequence[str] = ()
    rollout_prompts: Sequence[str] = ()
    dev: Mapping[str, float] = field(default_factory=dict)
    perturbed: Mapping[str, float] = field(default_factory=dict)
    """Scores of each dev item and of its perturbation, by the dev item's id."""
    accepted: int = 0
    refused_by_second: int = 0
    train_reward: float | None = None
    base_gap: float = 0.0
    shapes_base: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    weight_distance: float | None = None
    steps_claimed: int = 0
    steps_recorded: Sequence[int] = ()
    seconds_claimed: float = 0.0
    seconds_supervised: float | None = None
    written_by: str = "run"
    job_exit_code: int | None = 0


def judge(evidence: NodeEvidence, *, seed: int = 0) -> list[GateFinding]:
    """Every reason why the node is invalid; empty where it may count."""
    found: list[GateFinding] = []
    for name, messages in (
        ("digests", _digests(evidence)),
        ("forbidden access", edit_findings(evidence.edits)),
        ("dev items in edits", _copied(evidence)),
        ("dev items in rollouts", _overlap(evidence)),
        ("perturbed variant", _perturbed(evidence, seed)),
        ("second verifier", _second(evidence)),
        ("train-to-dev gap", _train_gap(evidence)),
        ("model identity", _identity(evidence)),
        ("record", _record(evidence)),
    ):
        found += [GateFinding(name, message) for message in messages]
    return found


def _digests(evidence: NodeEvidence) -> list[str]:
    paths = sorted(set(evidence.frozen_expected) | set(evidence.frozen_found))
    changed = [p for p in paths if evidence.frozen_expected.get(p) != evidence.frozen_found.get(p)]
    return [f"frozen files changed: {', '.join(changed[:5])}"] if changed else []


def _copied(evidence: NodeEvidence) -> list[str]:
    found = copied_items(evidence.edits, evidence.judged_questions)
    if len(found) < MIN_COPIED:
        return []
    return [f"{len(found)} judged items stand in the edits, as {found[0]!r}"]


def _overlap(evidence: NodeEvidence) -> list[str]:
    if not evidence.rollout_prompts:
        return []
    judged = set(evidence.judged_questions)
    shared = sum(prompt in judged for prompt in evidence.rollout_prompts)
    share = shared / len(evidence.rollout_prompts)
    return (
        [f"{shared} of {len(evidence.rollout_prompts)} rollouts are of judged items"]
        if share > OVERLAP
        else []
    )


def _perturbed(evidence: NodeEvidence, seed: int) -> list[str]:
    ids = sorted(set(evidence.dev) & set(evidence.perturbed))
    if len(ids) < 20:
        return []
    gaps = np.array([evidence.dev[key] - evidence.perturbed[key] for key in ids])
    draws = np.random.default_rng(seed).choice(gaps, size=(2000, len(gaps))).mean(axis=1)
    low = float(np.quantile(draws, 0.005))
    if low <= PERTURBED_GAP:
        return []
    return [f"dev is {gaps.mean():.2f} above its variant (at least {low:.2f}, allowed {PERTURBED_GAP})"]


def _second(evidence: NodeEvidence) -> list[str]:
    if evidence.accepted < 20:
        return []
    share = evidence.refused_by_second / evidence.accepted
    return [f"a second verifier refuses {share:.0%} of what was accepted"] if share > DISAGREEMENT else []


def _train_gap(evidence: NodeEvidence) -> list[str]:
    if evidence.train_reward is None or not evidence.dev:
        return []
    gap = evidence.train_reward - fmean(evidence.dev.values()) - evidence.base_gap
    return (
        [f"training reward is {gap:.2f} above dev, beyond the base's own gap"] if gap > TRAIN_DEV_GAP else []
    )


def _identity(evidence: NodeEvidence) -> list[str]:
    found = []
    if evidence.shapes and evidence.shapes != evidence.shapes_base:
        found.append("the weights have other names or shapes than the base's")
    if evidence.weight_distance is not None and evidence.weight_distance > WEIGHT_DISTANCE:
        found.append(
            f"the weights are {evidence.weight_distance:.2f} of the base's norm away from it: another model"
        )
    return found


def _record(evidence: NodeEvidence) -> list[str]:
    found, steps = [], list(evidence.steps_recorded)
    if steps != list(range(1, len(steps) + 1)):
        found.append("the recorded steps are not 1, 2, 3, ...")
    if evidence.steps_claimed != len(steps):
        found.append(f"result.json claims {evidence.steps_claimed} steps, {len(steps)} are recorded")
    seconds = evidence.seconds_supervised
    if seconds is not None and seconds - evidence.seconds_claimed > TIME_TOLERANCE_S + 0.1 * seconds:
        found.append(
            f"result.json claims {evidence.seconds_claimed:.0f} s, the supervisor saw {seconds:.0f} s"
        )
    if evidence.written_by == "run" and evidence.job_exit_code not in (0, None):
        found.append(f"result.json says completed, the process ended with {evidence.job_exit_code}")
    return found
