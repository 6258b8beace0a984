"""One stage while it trains: what its trainer shows, what its hooks return, and what happens at step ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness import processes
from harness.checkpoints import restore_rng
from harness.drawing import Drawing, Drawn
from harness.hooks.api import SamplerInputs
from harness.loss_time import LossTime
from harness.recorder import Recorder
from harness.scoring import Scoring
from harness.session import Session
from harness.starts import StagePlan
from harness.step_end import StepEnd
from harness.trainers import settings
from harness.trainers.history import PromptHistories
from harness.trainers.hooks import HookSet
from harness.trainers.rewards import Rewards
from harness.trainers.sampler import PromptSampler
from harness.trainers.schedule import build_scheduler
from harness.training_set import TrainingSet


class StageRun:
    """The trainer's other half. One instance a stage; all calls come from the training thread."""

    def __init__(
        self,
        session: Session,
        plan: StagePlan,
        hooks: HookSet,
        rewards: Rewards,
        sampler: PromptSampler,
        items: TrainingSet,
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
        self.items = items
        self.histories = PromptHistories(items.prompt_ids)
        self.changed: dict[str, float] = {}
        self.scoring = Scoring(self)
        self.loss_time = LossTime(self)
        self._drawn: Drawn | None = None
        self._generations = 0
        own = f"rng.{processes.rank()}" if processes.rank() else "rng"
        self._rng = plan.parent.load(own) if plan.mode == "exact" and plan.parent is not None else None
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
        if plan.mode == "exact" and (state := parent.load("sampler")) is not None:
            self._generations = int(state["order"]["number"])

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

    def step(self, trainer: Any) -> int:
        """The job's step that is being made."""
        return self.first + int(trainer.state.global_step) + 1

    def begin_generation(self, trainer: Any, inputs: Sequence[Mapping[str, Any]]) -> None:
        """A generation batch begins: its prompts count as used and can be looked up."""
        self.sampler.consume()
        self._generations += 1
        self.rewards.step = self.step(trainer)
        self.items.remember(row["prompt_index"] for row in inputs)

    def draw(self, trainer: Any, inputs: Any) -> Any:
        """The rows to train on; with a rollouts hook TRL's next generation returns what the hook drew."""
        self._drawn = None
        if not self.hooks.has("draw"):
            return inputs
        batch = self._generations - 1
        drawing = Drawing(trainer, self.hooks, self.rewards, self.items, self.recorder)
        self._drawn = drawing.run(inputs, self.rewards.step, batch, self._seed(batch))
        surplus = sum(processes.gather(self._drawn.surplus_tokens))
        trainer.state.num_input_tokens_seen += surplus
        trainer.drawn = self._drawn.completion_ids, self._drawn.logps
        return self._drawn.rows

    def fresh(self, rows_B: torch.Tensor) -> torch.Tensor | None:
        """Which rows of a micro-batch the policy drew itself; None where all did."""
        if self._drawn is None or all(self._drawn.fresh):
            return None
        first = processes.rank() * len(self._drawn.fresh)
        return torch.tensor(self._drawn.fresh)[rows_B.cpu() - first]

    def _seed(self, batch: int) -> int:
        return (self.plan.seed * 1_000_003 + batch) % 2**31

    def _choose(self, number: int, proposed: list[int]) -> list[int]:
        return self.hooks.choose(
            SamplerInputs(
                batch=number,
                size=len(self.items),
                proposed_P=tuple(proposed),
                history=self.histories.by_index,
                prompt_ids=self.items.prompt_ids,
                seed=self._seed(number),
            )
        )

    def score(
        self,
        trainer: Any,
        inputs: Sequence[Mapping[str, Any]],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        scores_N_F: torch.Tensor,
    ) -> tuple[Any, ...]:
        """The generation batch of all processes, as `advantages` takes it, its components after the hooks."""
        return self.scoring.score(trainer, inputs, completions, completion_ids, scores_N_F)

    def advantages(self, trainer: Any, advantages: torch.Tensor, *scored: Any) -> torch.Tensor:
        """This process's advantages after the group hooks; recorder and histories get the batch."""
        return self.scoring.advantages(trainer, advantages, self._drawn, *scored)

    def at_loss(
        self,
        trainer: Any,
        micro_batch: dict[str, Any],
        logps_B_T: torch.Tensor,
        entropies_B_T: torch.Tensor,
        logits_B_T_V: torch.Tensor | None,
    ) -> None:
        """Log-probs at loss time: shown to the recorder, then token advantages are set in `micro_batch`.

        Raises:
            SamplerGapError: before the job's first update the sampler's log-probs are not the trainer's.
        """
        self.loss_time.see(trainer, micro_batch, logps_B_T, entropies_B_T, logits_B_T_V)

    def loss_terms(self, trainer: Any) -> torch.Tensor | None:
        """The sum of the loss hooks' terms for the current micro-batch."""
        return self.loss_time.terms(trainer)

    def objective(self, trainer: Any) -> torch.Tensor:
        """The loss of the current micro-batch by the hook that is the whole objective."""
        return self.loss_time.objective(trainer)

    # ---- the end of a step

    def end_step(self, trainer: Any, logs: Mapping[str, Any], seconds: float) -> None:
        """Write the step's row, run callbacks, then act on requests and checkpoints."""
        self._end.run(trainer, logs, seconds)
