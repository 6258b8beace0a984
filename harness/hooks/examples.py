"""One worked example of each hook point, small enough to read, each used by a test in a real job.

`hooks/examples.py:LeastKnownFirst` and so on in job.json. They are examples of the protocol
(harness/hooks/api.py) before they are methods: published methods, with their evidence, are skills.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from harness.hooks.api import (
    Draw,
    GroupInputs,
    LossInputs,
    LossTerm,
    Need,
    RewardInputs,
    RolloutBatch,
    RolloutInputs,
    SamplerInputs,
    StepInputs,
)


class LeastKnownFirst:
    """sampler: of the prompts that come next and those visited, those whose pass rate is nearest a half.

    p (1 - p), the variance of a verdict, is the size of a group's signal; a prompt without a visit counts
    as a half. A prompt is not taken twice.
    """

    def choose(self, inputs: SamplerInputs) -> Sequence[int]:
        """P prompt indices."""
        known = inputs.history
        pool = list(dict.fromkeys([*inputs.proposed_P, *known]))

        def distance(index: int) -> float:
            return abs(known[index].pass_rate - 0.5) if index in known else 0.0

        return sorted(pool, key=distance)[: len(inputs.proposed_P)]


class DynamicSampling:
    """rollouts: a group whose rewards are all equal gives way to one of another prompt.

    DAPO's drop and refill (https://arxiv.org/abs/2503.14476, section 3.2), with at most `tries` other prompts
    for each place; then the last group is taken as it is. What is dropped is charged as surplus.
    """

    def __init__(self, tries: int = 2) -> None:
        """Take how many other prompts are tried."""
        self.tries = tries

    def draw(self, inputs: RolloutInputs) -> RolloutBatch:
        """P groups of G draws."""
        size = inputs.group_size
        kept: list[Draw] = []
        waiting = list(inputs.rows_P)
        for attempt in range(self.tries + 1):
            draws = inputs.generate([row for row in waiting for _ in range(size)])
            rewards = inputs.score(draws)
            dull = 0
            for first in range(0, len(draws), size):
                if attempt < self.tries and len(set(rewards[first : first + size])) == 1:
                    dull += 1
                else:
                    kept += draws[first : first + size]
            if not dull:
                break
            waiting = inputs.more(dull)
        return RolloutBatch(kept)


class Brevity:
    """rewards: a component `brevity`, 1 - length / cap for right completions and 0 for wrong ones."""

    adds: ClassVar[Mapping[str, float]] = {"brevity": 0.1}

    def components(self, inputs: RewardInputs) -> Mapping[str, torch.Tensor]:
        """The component, of shape N."""
        accuracy_N = inputs.components_N["accuracy"]
        lengths_N = torch.tensor([float(len(ids)) for ids in inputs.completion_ids_N]).to(accuracy_N)
        return {"brevity": torch.nan_to_num(accuracy_N) * (1 - lengths_N / inputs.max_completion_length)}


class LeaveOneOut:
    """advantages, at scoring: RLOO, a reward less the mean of the others in its group.

    A_g = r_g - sum_{h != g} r_h / (G - 1) (https://arxiv.org/abs/2402.14740); 0 where a reward does not
    apply.
    """

    def group(self, inputs: GroupInputs) -> torch.Tensor:
        """advantages_P_G."""
        rewards_P_G = inputs.rewards_P_G
        counts_P_1 = torch.isfinite(rewards_P_G).sum(1, keepdim=True)
        others_P_G = (rewards_P_G.nansum(1, keepdim=True) - rewards_P_G) / (counts_P_1 - 1).clamp(min=1)
        return torch.nan_to_num(rewards_P_G - others_P_G, nan=0.0)


class HighEntropyTokens:
    """advantages, at loss time: only the share of tokens with the highest entropy in the micro-batch counts.

    https://arxiv.org/abs/2506.01939 uses a fifth; the other tokens' advantages are 0.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.ENTROPIES})

    def __init__(self, share: float = 0.2) -> None:
        """Take the share of tokens that count."""
        self.share = share

    def tokens(self, inputs: LossInputs) -> torch.Tensor:
        """advantages_B_T."""
        counted = inputs.entropies_B_T[inputs.mask_B_T.bool()]
        threshold = torch.quantile(counted.float(), 1 - self.share)
        given = inputs.advantages
        given_B_T = given if given.dim() == 2 else given[:, None].expand_as(inputs.logps_B_T)
        return given_B_T * (inputs.entropies_B_T >= threshold)


class EntropyBonus:
    """loss, a term: minus `coef` times the mean entropy of the tokens that count."""

    def __init__(self, coef: float = 0.01) -> None:
        """Take the coefficient, in 1 / nat."""
        self.coef = coef

    def term(self, inputs: LossInputs) -> LossTerm:
        """The term, divided by the accumulation because it is a mean over rows."""
        mask_B_T = inputs.mask_B_T
        entropy = (inputs.entropies_B_T * mask_B_T).sum() / mask_B_T.sum().clamp(min=1)
        return LossTerm(
            -self.coef * entropy / inputs.accumulation, {"bonus/entropy": float(entropy.detach())}
        )


class Reinforce:
    """loss, a whole objective: - A log p, summed over tokens and divided by those of the step.

    REINFORCE with the advantages as they are: no ratio, no clipping; only for one update a batch. With `beta`
    the k3 estimate of the KL to the reference is added, as TRL does.
    """

    def objective(self, inputs: LossInputs) -> LossTerm:
        """The loss of a micro-batch, such that the step's is the sum."""
        advantages = inputs.advantages if inputs.advantages.dim() == 2 else inputs.advantages[:, None]
        loss_B_T = -advantages * inputs.logps_B_T
        if inputs.beta and inputs.ref_logps_B_T is not None:
            difference_B_T = inputs.ref_logps_B_T - inputs.logps_B_T
            loss_B_T = loss_B_T + inputs.beta * (torch.exp(difference_B_T) - difference_B_T - 1)
        tokens = inputs.num_items_in_batch.clamp(min=1.0) / inputs.processes
        tokens = tokens * inputs.accumulation / inputs.steps_per_generation
        return LossTerm((loss_B_T * inputs.mask_B_T).sum() / tokens, {})


class EntropyThermostat:
    """callbacks: the temperature goes up a little while entropy is below a target, and down above it.

    It keeps its own count of steps that it has acted on, which an exact resume gives back.
    """

    def __init__(self, target: float, rate: float = 0.05, low: float = 0.5, high: float = 1.5) -> None:
        """Take the target in nats, the relative change of a step and the bounds of the temperature."""
        self.target, self.rate, self.low, self.high = target, rate, low, high
        self.acted = 0

    def after_step(self, inputs: StepInputs) -> Mapping[str, float]:
        """The new temperature."""
        entropy = inputs.metrics.get("entropy")
        if entropy is None:
            return {}
        self.acted += 1
        factor = 1 + self.rate if entropy < self.target else 1 - self.rate
        return {"temperature": min(self.high, max(self.low, inputs.settings["temperature"] * factor))}

    def state_dict(self) -> dict[str, Any]:
        """The count."""
        return {"acted": self.acted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the count back."""
        self.acted = int(state["acted"])
