"""The end of a step: its row, callbacks, requests of the control plane, checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness import processes
from harness.checkpoints import TrainingState, rng_state, save_checkpoint
from harness.hooks.api import HookError, StepInputs
from harness.trainers import settings
from harness.trainers.arguments import take_apart

if TYPE_CHECKING:
    from harness.stage import StageRun


class StepEnd:
    """What a stage does after each optimiser step, in the training thread."""

    def __init__(self, stage: StageRun) -> None:
        """Belong to a stage."""
        self._stage, self._session = stage, stage.session
        self._due = False

    def run(self, trainer: Any, logs: Mapping[str, Any], seconds: float) -> None:
        """Write the step's row, run callbacks, then act on requests and checkpoints."""
        stage_step = int(trainer.state.global_step)
        step, last = self._stage.first + stage_step, stage_step >= self._stage.spec.steps
        session = self._session
        session.progress(step, int(trainer.state.num_input_tokens_seen) - self._stage.plan.tokens)
        extra: dict[str, Any] = {
            "epoch": self._stage.sampler.epochs,
            "tokens/total": trainer.state.num_input_tokens_seen,
        }
        if step % session.job.probe.every == 0 or last:
            extra |= session.measure(trainer.accelerator.unwrap_model(trainer.model))
        row = self._stage.recorder.write(step, self._stage.plan.stage, seconds, logs, extra)
        self._callbacks(trainer, step, stage_step, row)
        self._requests(trainer, step)
        self._checkpoint(trainer, step, stage_step, last)
        if session.stopping(last, self._at_boundary(trainer, last)):
            trainer.control.should_training_stop = True

    def _callbacks(self, trainer: Any, step: int, stage_step: int, row: Mapping[str, Any]) -> None:
        if not self._stage.hooks.has("after_step"):
            return
        row = processes.from_main(dict(row))
        asked = self._stage.hooks.after_step(
            StepInputs(
                step=step,
                stage_step=stage_step,
                stage_steps=self._stage.spec.steps,
                metrics=row,
                settings=settings.current(trainer),
            )
        )
        for name, (ref, value) in asked.items():
            try:
                self._stage.changed[name] = settings.change(trainer, name, value)
            except ValueError as error:
                raise HookError(f"{ref}: {error}") from None

    def _requests(self, trainer: Any, step: int) -> None:
        for request in self._session.poll(step):
            if request.kind != "set":
                self._session.ask(request)
                continue
            try:
                self._stage.changed |= _set_all(trainer, request.args)
            except ValueError as error:
                self._session.control.answer(request, step, False, str(error))
            else:
                self._session.control.answer(request, step, True, f"in force from step {step + 1}")

    def _at_boundary(self, trainer: Any, last: bool) -> bool:
        """Whether no generated completion waits for an update, or none will get one any more."""
        return last or trainer._step % (trainer.args.steps_per_generation * trainer.num_iterations) == 0

    def _checkpoint(self, trainer: Any, step: int, stage_step: int, last: bool) -> None:
        session = self._session
        self._due = self._due or step % session.job.checkpoints.every == 0
        wanted = self._due or last or session.wants_checkpoint()
        if not wanted or (session.abrupt and not last) or not self._at_boundary(trainer, last):
            return
        with session.heart.phase("checkpoint"):
            model = trainer.accelerator.unwrap_model(trainer.model)
            self._stage.recorder.flush()
            states = processes.gather(rng_state())
            training = self._training_state(
                trainer, step, stage_step, session.probe.kl_reference(model, trainer.ref_model)
            )
            if processes.is_main():
                others = {f"rng.{rank}": state for rank, state in enumerate(states) if rank}
                save_checkpoint(
                    session.checkpoints,
                    model,
                    session.tokenizer,
                    training,
                    {
                        "optimizer": trainer.optimizer.state_dict(),
                        "rng": states[0],
                        **others,
                        "hooks": self._stage.hooks.state_dict(),
                        "sampler": {
                            "order": self._stage.sampler.state_dict(),
                            "history": self._stage.histories.state_dict(),
                        },
                        "probe": session.probe.state_dict(model),
                    },
                )
            processes.wait()
        self._due = False
        session.saved(step)

    def _training_state(self, trainer: Any, step: int, stage_step: int, kl: float) -> TrainingState:
        lr = self._stage.plan.lr
        return TrainingState(
            job_id=self._session.job.job_id,
            step=step,
            stage=self._stage.plan.stage,
            stage_step=stage_step,
            path_steps=self._stage.plan.path_steps + stage_step,
            tokens=int(trainer.state.num_input_tokens_seen),
            boundary=self._at_boundary(trainer, last=False),
            optim=_name(trainer.args.optim),
            lr_plan=asdict(lr),
            reference_path=self._stage.plan.reference_path,
            settings=self._stage.changed,
            kl_reference=kl,
            entropy_control=_finite([trainer.entropy_coef, trainer._last_world_entropy])
            if trainer.use_adaptive_entropy
            else [],
            stages=[asdict(stage) for stage in self._session.job.stages],
            adapter=self._adapter(),
            processes=processes.world(),
        )

    def _adapter(self) -> dict[str, Any]:
        plan = self._stage.plan
        lora = take_apart(self._stage.spec, plan.stage).lora
        return {} if lora is None else {"lora": lora.as_json(), "base": plan.base_path or plan.model_path}


def _set_all(trainer: Any, asked: Mapping[str, Any]) -> dict[str, float]:
    """Change all settings of a request, or none of them."""
    if not asked:
        raise ValueError("set needs args: {argument: value}")
    before, done = settings.current(trainer), {}
    try:
        for name, value in asked.items():
            done[name] = settings.change(trainer, name, value)
    except ValueError:
        for name in done:
            settings.change(trainer, name, before[name])
        raise
    return done


def _name(value: Any) -> str:
    return str(getattr(value, "value", value))


def _finite(values: list[float]) -> list[float]:
    """Empty unless all are finite: TRL's controller has an infinite entropy before its first step."""
    return values if all(math.isfinite(value) for value in values) else []
