"""TRL's GRPOTrainer with the harness's hook points: thin, and blind to the algorithm.

Each override calls TRL's own method and shows a StageRun (harness/stage.py) what went in or out; what a hook
returns takes the place of TRL's value. The methods overridden are TRL 1.16's private ones:
tests/harness/test_trl_contract.py holds their signatures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from trl.trainer.grpo_trainer import GRPOTrainer

if TYPE_CHECKING:
    from harness.stage import StageRun


class GrpoTrainer(GRPOTrainer):  # type: ignore[misc, unused-ignore]  # TRL is untyped where its sources are not followed
    """GRPOTrainer whose sampler, schedule, advantages, loss terms and records come from a StageRun."""

    lr_scheduler: Any

    def __init__(self, *, stage: StageRun, **arguments: Any) -> None:
        """Take the stage's run and GRPOTrainer's own arguments."""
        self.stage = stage
        self._scored: tuple[Any, ...] = ()
        self._micro_batch: dict[str, Any] | None = None
        super().__init__(**arguments)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        return self.stage.sampler

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The stage's own schedule; the optimiser has its state back before it is built."""
        if self.lr_scheduler is None:
            self.stage.restore(self)
            self.lr_scheduler = self.stage.scheduler(self)
            self._created_lr_scheduler = True
            self.stage.restore_settings(self)
        return self.lr_scheduler

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """TRL's step on a micro-batch, its loss shown to the recorder."""
        self.stage.begin_micro_step()
        trl: Any = super()
        loss: torch.Tensor = trl.training_step(model, inputs, num_items_in_batch)
        self.stage.recorder.loss(loss.item())
        return loss

    def _generate(self, prompts: list[Any]) -> Any:
        with self.stage.recorder.timed("generate"):
            return super()._generate(prompts)

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        with self.stage.recorder.timed("reward"):
            scores = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
            scores = self.stage.score(self, inputs, completions, completion_ids_list, scores)
        self._scored = (inputs, completions, completion_ids_list, scores)
        return scores

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        self.stage.begin_generation(self)
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        output["advantages"] = self.stage.advantages(self, output["advantages"], *self._scored)
        # Rows are shuffled before they are split: this says which row of the generation batch each one was.
        output["rollout_row"] = torch.arange(len(output["advantages"]))
        return output

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **keywords: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*arguments, **keywords)
        if self._micro_batch is not None:
            self.stage.token_advantages(self, self._micro_batch, found[0], found[1])
        return found

    def _compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        # A copy: buffered inputs are used again when a batch is iterated over more than once.
        self._micro_batch = dict(inputs)
        try:
            trl: Any = super()
            loss: torch.Tensor = trl._compute_loss(model, self._micro_batch)
            terms = self.stage.loss_terms(self)
            return loss if terms is None else loss + terms
        finally:
            self._micro_batch = None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's log; after that of a step the stage writes its row and acts on requests."""
        seconds = self.stage.recorder.end_step()
        super().log(logs, start_time)
        if "train_runtime" not in logs:
            self.stage.end_step(self, logs, seconds)
