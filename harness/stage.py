"""One stage while it trains: what its trainer shows, what its hooks return, and what happens at step ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness.checkpoints import restore_rng
from harness.hooks.api import GroupInputs, LossInputs, RewardInputs, SamplerInputs
from harness.recorder import Recorder
from harness.session import Session
from harness.starts import StagePlan
from harness.statistics import GenerationBatch
from harness.step_end import StepEnd
from harness.trainers import settings
from harness.trainers.history import PromptHistories
from harness.trainers.hooks import HookSet
from harness.trainers.rewards import VERIFIER, Rewards, texts
from harness.trainers.sampler import PromptSampler
from harness.trainers.schedule import build_scheduler


class StageRun:
    """The trainer's other half. One instance a stage; all calls come from the training thread."""

    def __init__(
        self,
        session: Session,
        plan: StagePlan,
        hooks: HookSet,
        rewards: Rewards,
        sampler: PromptSampler,
        prompt_ids: Sequence[str],
    ) -> None:
        """Wire the parts together."""
        self.session, self.plan, self.hooks, self.rewards, self.sampler = (
            session,
            plan,
            hooks,
            rewards,
            sampler,
        )
        self.spec = session.job.stages[plan.stage]
        self.first = sum(stage.steps for stage in session.job.stages[: plan.stage])
        self.histories = PromptHistories(prompt_ids)
        self.changed: dict[str, float] = {}
        self._prompt_ids = list(prompt_ids)
        self._rng = plan.parent.load("rng") if plan.mode == "exact" and plan.parent is not None else None
        self._loss_inputs: LossInputs | None = None
        self._end = StepEnd(self)
        if hooks.has("choose"):
            sampler.choose = self._choose
        self._restore_order()

    @property
    def recorder(self) -> Recorder:
        """The job's recorder."""
        return self.session.recorder

    def _restore_order(self) -> None:
        parent, plan = self.plan.parent, self.plan
        if parent is None:
            return
        if (state := parent.load("hooks")) is not None:
            self.hooks.load_state_dict(state, strict=plan.mode == "exact")
        if plan.sampler == "continue" and (state := parent.load("sampler")) is not None:
            self.sampler.load_state_dict(state["order"])
            self.histories.load_state_dict(state["history"])

    # ---- the trainer begins

    def restore(self, trainer: Any) -> None:
        """Give the trainer optimiser state and counters; hyper-parameters stay those of the arguments."""
        trainer.state.global_step = self.plan.done
        trainer.state.num_input_tokens_seen = self.plan.tokens
        if self.plan.entropy_control:
            trainer.entropy_coef, trainer._last_world_entropy = self.plan.entropy_control
        if self.plan.optimizer != "keep" or self.plan.parent is None:
            return
        asked = [
            {k: v for k, v in group.items() if k != "params"} for group in trainer.optimizer.param_groups
        ]
        trainer.optimizer.load_state_dict(self.plan.parent.load("optimizer"))
        for group, own in zip(trainer.optimizer.param_groups, asked, strict=True):
            # Left in place, it would be the schedule's base: the parent's learning rate would come back.
            group.pop("initial_lr", None)
            group.update(own)

    def scheduler(self, trainer: Any) -> Any:
        """The stage's learning-rate schedule, from where the stage stands."""
        return build_scheduler(trainer.args, trainer.optimizer, self.plan.lr, self.spec.steps, self.plan.done)

    def restore_settings(self, trainer: Any) -> None:
        """Repeat what was changed in flight before an exact resume."""
        for name, value in self.plan.settings.items():
            self.changed[name] = settings.change(trainer, name, value)

    # ---- one step

    def begin_micro_step(self) -> None:
        """Before anything random in a micro-batch; the first one of an exact resume takes the RNG back."""
        if self._rng is not None:
            restore_rng(self._rng)
            self._rng = None
        self.recorder.begin_micro_step()

    def _step(self, trainer: Any) -> int:
        return self.first + int(trainer.state.global_step) + 1

    def begin_generation(self, trainer: Any) -> None:
        """A generation batch begins: its prompts count as used."""
        self.sampler.consume()
        self.rewards.step = self._step(trainer)

    def _choose(self, number: int, proposed: list[int]) -> list[int]:
        return self.hooks.choose(
            SamplerInputs(
                batch=number,
                size=len(self._prompt_ids),
                proposed_P=tuple(proposed),
                history=self.histories.by_index,
                prompt_ids=self._prompt_ids,
                seed=(self.plan.seed * 1_000_003 + number) % 2**31,
            )
        )

    def score(
        self,
        trainer: Any,
        inputs: Sequence[Mapping[str, Any]],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        scores_N_F: torch.Tensor,
    ) -> torch.Tensor:
        """The reward components after the reward hooks; column by column as TRL has them."""
        if not self.hooks.has("components"):
            return scores_N_F
        names = list(self.rewards.weights)
        prompt_ids = [row["prompt_id"] for row in inputs]
        columns = self.rewards.columns(prompt_ids)
        found = self.hooks.components(
            RewardInputs(
                step=self.rewards.step,
                prompts_N=[row["prompt"] for row in inputs],
                completions_N=texts(completions),
                completion_ids_N=completion_ids,
                prompt_ids_N=prompt_ids,
                answers_N=columns["answer"],
                columns_N=columns["columns"],
                group_size=trainer.num_generations,
                components_N={name: scores_N_F[:, place] for place, name in enumerate(names)},
                max_completion_length=trainer.max_completion_length,
            )
        )
        return torch.stack([found[name] for name in names], dim=1)

    def advantages(
        self,
        trainer: Any,
        advantages_N: torch.Tensor,
        inputs: Sequence[Mapping[str, Any]],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        scores_N_F: torch.Tensor,
    ) -> torch.Tensor:
        """The advantages after the group hooks; recorder and histories get the batch."""
        weights_F = trainer.reward_weights.to(scores_N_F.device)
        rewards_N = (scores_N_F * weights_F).nansum(dim=1)
        rewards_N[torch.isnan(scores_N_F).all(dim=1)] = torch.nan
        ends = set(trainer.eos_token_ids) | {trainer._tokenizer.pad_token_id}
        stopped = [ids[-1] in ends for ids in completion_ids]
        prompt_ids = [row["prompt_id"] for row in inputs]
        components = {name: scores_N_F[:, place] for place, name in enumerate(self.rewards.weights)}
        if self.hooks.has("group"):
            shape = (-1, trainer.num_generations)
            lengths_N = torch.tensor([len(ids) for ids in completion_ids], device=rewards_N.device)
            truncated_N = torch.tensor([not stop for stop in stopped], device=rewards_N.device)
            advantages_N = self.hooks.group(
                GroupInputs(
                    step=self.rewards.step,
                    advantages_P_G=advantages_N.view(shape),
                    rewards_P_G=rewards_N.view(shape),
                    components_P_G={name: value.view(shape) for name, value in components.items()},
                    lengths_P_G=lengths_N.view(shape),
                    truncated_P_G=truncated_N.view(shape),
                    prompt_ids_P=prompt_ids[:: trainer.num_generations],
                    max_completion_length=trainer.max_completion_length,
                )
            ).reshape(-1)
        batch = GenerationBatch(
            prompts=[_text(row["prompt"]) for row in inputs],
            prompt_ids=prompt_ids,
            completions=texts(completions),
            completion_ids=[list(ids) for ids in completion_ids],
            stopped=stopped,
            rewards=rewards_N.tolist(),
            components={name: value.tolist() for name, value in components.items()},
            advantages=advantages_N.tolist(),
            group_size=trainer.num_generations,
            verifier=VERIFIER if VERIFIER in components else None,
        )
        self.histories.add(batch)
        self.recorder.batch(self.rewards.step, batch, self.rewards.nonfinite)
        self.rewards.nonfinite = 0
        return advantages_N

    def token_advantages(
        self, trainer: Any, micro_batch: dict[str, Any], logps_B_T: torch.Tensor, entropies_B_T: torch.Tensor
    ) -> None:
        """Show the log-probs at loss time to the recorder, set token advantages in `micro_batch`."""
        mask_B_T = micro_batch["completion_mask"]
        if "tool_mask" in micro_batch:
            mask_B_T = mask_B_T * micro_batch["tool_mask"]
        rows_B = micro_batch["rollout_row"]
        detached = logps_B_T.detach()
        means_B = (detached * mask_B_T).sum(-1) / mask_B_T.sum(-1)
        self.recorder.logps(rows_B.tolist(), means_B.tolist())
        if not (self.hooks.has("tokens") or self.hooks.has("term")):
            return
        old = micro_batch.get("old_per_token_logps")
        self._loss_inputs = LossInputs(
            step=self._step(trainer),
            logps_B_T=logps_B_T,
            old_logps_B_T=detached if old is None else old,
            ref_logps_B_T=micro_batch.get("ref_per_token_logps"),
            sampler_logps_B_T=micro_batch.get("sampling_per_token_logps"),
            entropies_B_T=entropies_B_T,
            advantages=micro_batch["advantages"],
            mask_B_T=mask_B_T,
            group_B=(rows_B // trainer.num_generations).to(detached.device),
            num_items_in_batch=micro_batch["num_items_in_batch"],
            accumulation=trainer.current_gradient_accumulation_steps,
            steps_per_generation=trainer.args.steps_per_generation,
            processes=trainer.accelerator.num_processes,
            max_completion_length=trainer.max_completion_length,
        )
        if self.hooks.has("tokens"):
            micro_batch["advantages"] = self.hooks.tokens(self._loss_inputs)

    def loss_terms(self, trainer: Any) -> torch.Tensor | None:
        """The sum of the loss hooks' terms for the current micro-batch."""
        if not self.hooks.has("term") or self._loss_inputs is None:
            return None
        total: torch.Tensor | None = None
        for term in self.hooks.terms(self._loss_inputs):
            for name, value in term.metrics.items():
                trainer._metrics["train"][name].append(float(value))
            total = term.value if total is None else total + term.value
        self._loss_inputs = None
        return total

    # ---- the end of a step

    def end_step(self, trainer: Any, logs: Mapping[str, Any], seconds: float) -> None:
        """Write the step's row, run callbacks, then act on requests and checkpoints."""
        self._end.run(trainer, logs, seconds)


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(message["content"] for message in prompt)
