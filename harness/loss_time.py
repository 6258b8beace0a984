"""A micro-batch at loss time: token and loss hooks, statistics, the check before the first update. Frozen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from harness import processes
from harness.hooks.api import LossInputs, LossTerm
from harness.starts import MAX_LOGPROB_GAP

if TYPE_CHECKING:
    from harness.stage import StageRun


class SamplerGapError(ValueError):
    """What samples is not what is trained."""


class LossTime:
    """The loss half of a stage."""

    def __init__(self, stage: StageRun) -> None:
        """Belong to a stage."""
        self._stage = stage
        self._inputs: LossInputs | None = None
        self._update: int | None = None

    def see(
        self,
        trainer: Any,
        micro_batch: dict[str, Any],
        logps_B_T: torch.Tensor,
        entropies_B_T: torch.Tensor,
        logits_B_T_V: torch.Tensor | None,
    ) -> None:
        """Show log-probs to recorder and hooks; a `tokens` hook's advantages go into `micro_batch`."""
        stage, detached = self._stage, logps_B_T.detach()
        mask_B_T = micro_batch["completion_mask"]
        if "tool_mask" in micro_batch:
            mask_B_T = mask_B_T * micro_batch["tool_mask"]
        rows_B = micro_batch["rollout_row"]
        means_B = (detached * mask_B_T).sum(-1) / mask_B_T.sum(-1)
        stage.recorder.logps(rows_B.tolist(), means_B.tolist())
        old, sampler = micro_batch.get("old_per_token_logps"), micro_batch.get("sampling_per_token_logps")
        gap = stage.recorder.tokens.add(
            detached, old, sampler, entropies_B_T.detach(), mask_B_T, stage.fresh(rows_B)
        )
        self._check_gap(trainer, gap)
        if not any(stage.hooks.has(method) for method in ("tokens", "term", "objective")):
            return
        inputs = LossInputs(
            step=stage.step(trainer),
            logps_B_T=logps_B_T,
            old_logps_B_T=detached if old is None else old,
            ref_logps_B_T=micro_batch.get("ref_per_token_logps"),
            sampler_logps_B_T=sampler,
            entropies_B_T=entropies_B_T,
            advantages=micro_batch["advantages"],
            mask_B_T=mask_B_T,
            group_B=(rows_B // trainer.num_generations).to(detached.device),
            num_items_in_batch=micro_batch["num_items_in_batch"],
            accumulation=trainer.current_gradient_accumulation_steps,
            steps_per_generation=trainer.args.steps_per_generation,
            processes=trainer.accelerator.num_processes,
            max_completion_length=trainer.max_completion_length,
            beta=float(trainer.beta),
            epsilon_low=float(trainer.epsilon_low),
            epsilon_high=float(trainer.epsilon_high),
            temperature=float(trainer.temperature),
            logits_B_T_V=logits_B_T_V,
            rows_B=rows_B.to(detached.device),
        )
        if stage.hooks.has("tokens"):
            micro_batch["advantages"] = stage.hooks.tokens(inputs)
            inputs = replace(inputs, advantages=micro_batch["advantages"])
        self._inputs = inputs

    def _check_gap(self, trainer: Any, gap: float | None) -> None:
        """Fail a stage whose sampler is not its policy before anything was learnt from it."""
        step = int(trainer.state.global_step)
        self._update = step if self._update is None else self._update
        if gap is not None and step == self._update and not gap <= MAX_LOGPROB_GAP:
            raise SamplerGapError(
                f"before the first update the sampler's log-probs differ from the trainer's by {gap:.3g} "
                f"nats a token on average; at most {MAX_LOGPROB_GAP} is allowed: "
                "its weights, type or temperature are others"
            )

    def terms(self, trainer: Any) -> torch.Tensor | None:
        """The sum of the loss hooks' terms for the current micro-batch."""
        inputs, self._inputs = self._inputs, None
        if inputs is None or not self._stage.hooks.has("term"):
            return None
        found = self._stage.hooks.terms(inputs)
        for term in found:
            _log(trainer, term)
        return torch.stack([term.value for term in found]).sum()

    def objective(self, trainer: Any) -> torch.Tensor:
        """The whole objective for the current micro-batch."""
        if self._inputs is None:
            raise RuntimeError("an objective was asked for before the log-probs of its micro-batch")
        term = self._stage.hooks.objective(self._inputs)
        _log(trainer, term)
        return term.value


def _log(trainer: Any, term: LossTerm) -> None:
    """The metrics of a term, as means over the processes."""
    parts = processes.gather({name: float(value) for name, value in term.metrics.items()})
    for name in term.metrics:
        values = [part[name] for part in parts if name in part]
        trainer._metrics["train"][name].append(sum(values) / len(values))
