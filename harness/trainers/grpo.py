"""TRL's GRPOTrainer with the harness's hook points: thin, and blind to the algorithm.

Each override calls TRL's own method and shows a StageRun (harness/stage.py) what went in or out; what a hook
returns takes the place of TRL's value. The methods overridden are TRL 1.16's private ones:
tests/harness/test_trl_contract.py holds their signatures.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import torch
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import split_tensor_dict

from harness import processes
from harness.hooks.api import Need
from harness.trainers.capture import LogpCapture
from harness.trainers.forward import budgeted, unfused
from harness.trainers.lora import base_of
from harness.trainers.objective import whole_objective

if TYPE_CHECKING:
    from harness.stage import StageRun


class GrpoTrainer(GRPOTrainer):  # type: ignore[misc, unused-ignore]  # TRL is untyped where its sources are not followed
    """GRPOTrainer whose sampler, schedule, rollouts, advantages, loss and records come from a StageRun."""

    lr_scheduler: Any

    def __init__(self, *, stage: StageRun, token_budget: int | None = None, **arguments: Any) -> None:
        """Take the stage's run, the most tokens of a forward (None: no limit), GRPOTrainer's arguments."""
        self.stage, self._token_budget = stage, token_budget
        self.sampler_logps = False
        """Whether generation without vLLM returns log-probs of what it samples."""
        self.drawn: tuple[list[list[int]], list[list[float]] | None] | None = None
        """Completions, and log-probs, that the next generation is to return instead of sampling."""
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

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        own: Any = self
        parts = own.args.steps_per_generation
        whole = self.stage.hooks.needs(Need.WHOLE_GROUPS) and own.model.training
        if not whole or parts == 1:
            return super()._prepare_inputs(generation_batch)
        # TRL's own method but for the shuffle, which moves groups here and not rows.
        if own._step % (parts * own.num_iterations) == 0 or own._buffered_inputs is None:
            output = self._generate_and_score_completions(generation_batch)
            own._buffered_inputs = split_tensor_dict(shuffled_groups(output, own.num_generations), parts)
        return own._buffered_inputs[own._step % parts]

    def _generate(self, prompts: list[Any]) -> Any:
        with self.stage.recorder.timed("generate"):
            generated = super()._generate(prompts)
        self.stage.scoring.masks, self.stage.scoring.sampler_logps = generated[2], generated[4]
        return generated

    def _generate_single_turn(self, prompt_ids: Any, *arguments: Any, **keywords: Any) -> Any:
        if self.drawn is not None:
            drawn, self.drawn = self.drawn, None
            return drawn
        trl: Any = super()
        if not self.sampler_logps or self.use_vllm:
            return trl._generate_single_turn(prompt_ids, *arguments, **keywords)
        capture = LogpCapture(self.generation_config.temperature)
        with capture.on(base_of(self.accelerator.unwrap_model(self.model_wrapped))):
            completion_ids, _ = trl._generate_single_turn(prompt_ids, *arguments, **keywords)
        return completion_ids, capture.of(completion_ids)

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        with self.stage.recorder.timed("reward"):
            scores = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
            self._scored = self.stage.score(self, inputs, completions, completion_ids_list, scores)
        found: torch.Tensor = self._scored[-1]
        return found

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        self.stage.begin_generation(self, inputs)
        with self.stage.recorder.timed("generate"):
            inputs = self.stage.draw(self, inputs)
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        first = processes.rank() * len(inputs)
        output["advantages"] = self.stage.advantages(self, output["advantages"], *self._scored)
        # Rows are shuffled before they are split: this says which row of the generation batch each one was.
        output["rollout_row"] = torch.arange(first, first + len(inputs))
        return output

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Any,
        attention_mask: Any,
        logits_to_keep: Any,
        *arguments: Any,
        **keywords: Any,
    ) -> Any:
        at_loss, logits = self._micro_batch is not None, None
        found: tuple[Any, ...]
        trl: Any = super()._get_per_token_logps_and_entropies
        if at_loss and self.stage.hooks.needs(Need.LOGITS):
            begun = time.perf_counter()
            with self.accelerator.autocast():
                logps, entropies, logits = unfused(
                    model, input_ids, attention_mask, logits_to_keep, self.temperature
                )
            found = (logps, entropies, None)
            self._metrics["train"]["time/logits_s"].append(time.perf_counter() - begun)
        elif self._token_budget is not None:
            keywords.pop("batch_size", None)
            # Of several processes each has its own number of chunks: the wrapped model, whose forward is a
            # collective, is called once and the model itself for the rest; gradients meet in the backward.
            models = itertools.chain([model], itertools.repeat(self.accelerator.unwrap_model(model)))
            found = budgeted(
                lambda ids, attention, keep: trl(next(models), ids, attention, keep, **keywords),
                input_ids,
                attention_mask,
                logits_to_keep,
                self._token_budget,
            )
        else:
            found = trl(model, input_ids, attention_mask, logits_to_keep, *arguments, **keywords)
        if self._micro_batch is not None:
            self.stage.at_loss(self, self._micro_batch, found[0], found[1], logits)
        return found

    def _compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        # A copy: buffered inputs are used again when a batch is iterated over more than once.
        self._micro_batch = dict(inputs)
        try:
            trl: Any = super()
            if self.stage.hooks.has("objective"):
                loss: torch.Tensor = whole_objective(self, model, self._micro_batch)
            else:
                loss = trl._compute_loss(model, self._micro_batch)
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


def shuffled_groups(output: dict[str, Any], group_size: int) -> dict[str, Any]:
    """The rows of a generation batch in another order, groups whole."""
    rows = len(output["rollout_row"])
    groups = torch.randperm(rows // group_size)
    order = (groups[:, None] * group_size + torch.arange(group_size)).flatten()
    return {
        name: value[order.to(value.device)] if isinstance(value, torch.Tensor) and value.ndim else value
        for name, value in output.items()
    }
