"""The hook points: what a hook sees and what it returns. Frozen.

A hook is a class in `hooks/<file>.py`, named in job.json as `hooks/<file>.py:<Class>` and built with its
`params` as keywords. At its point it has the methods of that point's protocol below:

    sampler      `choose`              which prompts come next
    rollouts     `draw`                which completions of them are trained on, out of any number drawn
    rewards      `components`          values of reward components, never the verifier's
    advantages   `group`               one advantage a completion, at scoring
                 `tokens`              one advantage a token, at loss time
    loss         `term`                a term that is added to the loss, and metrics
                 `objective`           the whole loss; one hook of a stage at most
    callbacks    `after_step`          settings to change before the next step

Several hooks at one point run in the order of job.json, each on the result of the one before it. A hook that
keeps state may have `state_dict` and `load_state_dict`; the state is in every checkpoint. A hook that needs
more than every run has says so in `needs`; what cannot be satisfied is refused before step 1.

Names end in their axes: B rows (completions of one micro-batch), N completions of a generation batch, P
prompts in it, G completions of one prompt, T tokens, padded, V vocabulary. Row p * G + g of N is completion g
of prompt p.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import torch


class Need(StrEnum):
    """What a hook may ask for in its class attribute `needs: frozenset[Need]`."""

    WHOLE_GROUPS = "whole_groups"
    """All completions of a prompt in one micro-batch, at loss time."""
    REFERENCE = "reference"
    """Log-probs of the reference policy."""
    SAMPLER_LOGPS = "sampler_logps"
    """Log-probs as the sampling engine computed them."""
    ENTROPIES = "entropies"
    """Entropy of every token; every run has them."""
    LOGITS = "logits"
    """Full logits at loss time, by a forward without the fused head: more memory, and seconds of its own."""


@dataclass(frozen=True, slots=True)
class PromptHistory:
    """What is known of one prompt of the training set: visits, and means over the visits."""

    visits: int
    pass_rate: float
    """Mean verifier score, over all completions of all visits; 0 without a visit."""
    last_pass_rate: float
    mean_abs_advantage: float


@dataclass(frozen=True, slots=True)
class SamplerInputs:
    """The choice of the prompts of the next generation batch. History is one generation batch old."""

    batch: int
    """Number of the generation batch within the stage, from 0."""
    size: int
    """Prompts in the training set; a choice is P indices below it."""
    proposed_P: tuple[int, ...]
    """What comes next without this hook: the shuffled set, or the choice of the hook before."""
    history: Mapping[int, PromptHistory]
    """By prompt index; prompts that were never visited are absent."""
    prompt_ids: Sequence[str]
    """Id of each prompt of the training set, by index."""
    seed: int
    """Differs from batch to batch and is equal in a repetition: for the hook's own random choices."""


@runtime_checkable
class SamplerHook(Protocol):
    """Chooses the prompts of a generation batch."""

    def choose(self, inputs: SamplerInputs) -> Sequence[int]:
        """Return P prompt indices; a prompt may come twice."""


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt with its task columns."""

    prompt_id: str
    prompt: Sequence[Mapping[str, str]]
    answer: str
    columns: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Draw:
    """One completion that was drawn."""

    row: PromptRow
    completion_ids: tuple[int, ...]
    """With its end token, unless it was cut off at the cap."""
    text: str
    logps: tuple[float, ...] | None
    """The sampling engine's log-prob of each token; None where it gives none."""
    tag: str = ""
    """A name for where the draw comes from; advantages are recorded by tag."""
    fresh: bool = True
    """False for a completion of another policy (a replayed one): its log-probs are not those of a sampler
    that should agree with the trainer, and are left out of `sampler/*` and of the check before the first
    update."""


@dataclass(frozen=True, slots=True)
class RolloutBatch:
    """What is trained on: P groups of G draws, each group of one prompt."""

    draws_N: Sequence[Draw]
    baselines_P: Sequence[float] | None = None
    """With baselines the advantage is (reward - baseline) / scale before the advantage hooks."""
    scales_P: Sequence[float] | None = None
    """1 for all where None."""


@dataclass(frozen=True, slots=True)
class RolloutInputs:
    """The draw of a generation batch; under several processes of this process's part of it."""

    step: int
    batch: int
    """Number of the generation batch within the stage, from 0."""
    rows_P: Sequence[PromptRow]
    group_size: int
    max_completion_length: int
    temperature: float
    seed: int
    """Differs from batch to batch and is equal in a repetition."""
    policy: Any
    """The model that is trained, to be copied or asked, never to be changed."""
    generate: Callable[..., list[Draw]]
    """`generate(rows, model=None, temperature=None)` draws one completion for each row of a list. Another
    model or temperature is for a hook that wants a mismatch between sampler and trainer."""
    score: Callable[[Sequence[Draw]], list[float]]
    """The weighted reward of draws, without the components of reward hooks; 0 where none applies."""
    verify: Callable[[Sequence[Draw]], list[float]]
    """The verifier's score alone; 0 where it cannot score."""
    more: Callable[[int], list[PromptRow]]
    """Further prompts of the training set, at random."""
    proposed: RolloutBatch | None
    """What the hook before returned."""


@runtime_checkable
class RolloutHook(Protocol):
    """Draws the completions of a generation batch, as many as it likes.

    All tokens that were drawn are charged to the job, those of surplus completions too.
    """

    def draw(self, inputs: RolloutInputs) -> RolloutBatch:
        """Return exactly P groups of G draws; the prompts may be others than those of `rows_P`."""


@dataclass(frozen=True, slots=True)
class RewardInputs:
    """A generation batch after its reward components were computed."""

    step: int
    prompts_N: Sequence[Sequence[Mapping[str, str]]]
    completions_N: Sequence[str]
    completion_ids_N: Sequence[Sequence[int]]
    prompt_ids_N: Sequence[str]
    answers_N: Sequence[str]
    columns_N: Sequence[Mapping[str, Any]]
    components_N: Mapping[str, torch.Tensor]
    """By name, in float32; NaN where a component does not apply. `accuracy` is the verifier's."""
    group_size: int
    max_completion_length: int


@runtime_checkable
class RewardHook(Protocol):
    """Sets reward components.

    New ones are declared in an attribute `adds: Mapping[str, float]`, name to weight; existing ones but the
    verifier's may be replaced.
    """

    def components(self, inputs: RewardInputs) -> Mapping[str, torch.Tensor]:
        """Return the components to set, each of shape N."""


@dataclass(frozen=True, slots=True)
class GroupInputs:
    """A generation batch when advantages are computed, groups whole."""

    step: int
    advantages_P_G: torch.Tensor
    """TRL's own, or those of the hook before."""
    rewards_P_G: torch.Tensor
    """The weighted sum of the components; NaN where none applies."""
    components_P_G: Mapping[str, torch.Tensor]
    lengths_P_G: torch.Tensor
    """Tokens of each completion, the end token included."""
    truncated_P_G: torch.Tensor
    """Whether a completion was cut off at the cap."""
    prompt_ids_P: Sequence[str]
    max_completion_length: int
    tags_P_G: Sequence[Sequence[str]] = ()
    """By a rollouts hook; empty without one."""


@runtime_checkable
class GroupAdvantageHook(Protocol):
    """Computes one advantage a completion."""

    def group(self, inputs: GroupInputs) -> torch.Tensor:
        """Return advantages_P_G, finite."""


@dataclass(frozen=True, slots=True)
class LossInputs:
    """One micro-batch at loss time.

    Log-probs are at the sampling temperature; only `logps_B_T` and `entropies_B_T` carry a graph.
    """

    step: int
    logps_B_T: torch.Tensor
    old_logps_B_T: torch.Tensor
    """Of the policy that sampled, as TRL uses it for the ratio."""
    ref_logps_B_T: torch.Tensor | None
    sampler_logps_B_T: torch.Tensor | None
    entropies_B_T: torch.Tensor
    advantages: torch.Tensor
    """advantages_B or, after a `tokens` hook, advantages_B_T."""
    mask_B_T: torch.Tensor
    """1 where a token counts in the loss."""
    group_B: torch.Tensor
    """Which prompt of the generation batch a row belongs to."""
    num_items_in_batch: torch.Tensor
    """Tokens that count, over the generation batch."""
    accumulation: int
    """Micro-batches in this optimiser step: a term that is a mean over rows is divided by it."""
    steps_per_generation: int
    processes: int
    max_completion_length: int
    beta: float = 0.0
    """In force now, as are the clip range below: an objective uses these, not its own copies."""
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    temperature: float = 1.0
    logits_B_T_V: torch.Tensor | None = None
    """At temperature 1, with a graph; for a hook that needs them."""
    rows_B: torch.Tensor | None = None
    """Row of the generation batch, p * G + g; over all processes."""


@runtime_checkable
class TokenAdvantageHook(Protocol):
    """Computes one advantage a token, when the current policy's log-probs and entropies are known."""

    def tokens(self, inputs: LossInputs) -> torch.Tensor:
        """Return advantages_B_T, finite and without a graph."""


@dataclass(frozen=True, slots=True)
class LossTerm:
    """A scalar with a graph, already scaled for accumulation, and metrics of this micro-batch."""

    value: torch.Tensor
    metrics: Mapping[str, float]


@runtime_checkable
class ObjectiveHook(Protocol):
    """Is the loss.

    Nothing of TRL's loss is left: an objective that wants the KL penalty, clipping or an entropy bonus has
    them itself. TRL's `kl` and `entropy` are logged for it; `clip_ratio/*` are its own metrics if it clips.
    """

    def objective(self, inputs: LossInputs) -> LossTerm:
        """Return the loss of this micro-batch, such that its sum over the accumulated ones is the step's."""


@runtime_checkable
class LossHook(Protocol):
    """Adds a term to the loss."""

    def term(self, inputs: LossInputs) -> LossTerm:
        """Return the term; its metrics are averaged over the step's micro-batches."""


@dataclass(frozen=True, slots=True)
class StepInputs:
    """A finished optimiser step."""

    step: int
    """Of the job; `stage_step` counts from the stage's start, also over an exact resume."""
    stage_step: int
    stage_steps: int
    metrics: Mapping[str, Any]
    """The step's row of metrics.jsonl."""
    settings: Mapping[str, float]
    """The settings in force, by their TRL names."""


@runtime_checkable
class CallbackHook(Protocol):
    """Changes settings while the job runs."""

    def after_step(self, inputs: StepInputs) -> Mapping[str, float]:
        """Return settings to change from the next step on (names as in `inputs.settings`); empty for none."""


@runtime_checkable
class StatefulHook(Protocol):
    """A hook whose state is part of a checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """Return tensors, numbers, strings, lists and dicts of them."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the state back."""


class HookError(ValueError):
    """A hook cannot be used, or returned what its point does not allow; the message names the hook."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        """Say where the hook is, where that is known: result.json names file and line."""
        super().__init__(message)
        self.file, self.line = file, line
