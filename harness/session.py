"""What a job's stages share: its folder, tokenizer, probe, recorder, and what it was asked to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from harness.checkpoints import Checkpoint, list_checkpoints
from harness.contract import JobSpec
from harness.control import Control, Request
from harness.failures import SIGNAL, StopFlag
from harness.heartbeat import Heartbeat
from harness.probe import Probe, ProbeBatch, logprob_gap, token_logps
from harness.processes import from_main, is_main
from harness.recorder import Recorder
from harness.tasks.api import Item, Task
from harness.training_set import TrainingSet


class SessionProbe(Probe):
    """The probe with what a checkpoint keeps of it."""

    def state_dict(self, model: Any) -> dict[str, Any]:
        """The batch and the policy's log-probs on it."""
        batch = self._the_batch()
        return {"batch": batch.state_dict(), "policy_logps": token_logps(model, batch).cpu()}

    def take_batch(self, parent: Checkpoint, model: Any) -> float:
        """Take over a parent's batch and return the gap in log-probs between loaded policy and parent."""
        state, device = parent.load("probe"), next(model.parameters()).device
        batch = self.batch = ProbeBatch.from_state(state["batch"], device)
        return logprob_gap(token_logps(model, batch), state["policy_logps"].to(device), batch.mask_B_T)


class Session:
    """A job in its process; keeps what was asked by control.json or a signal until it is done."""

    def __init__(
        self,
        job: JobSpec,
        heart: Heartbeat,
        flag: StopFlag,
        task: Task,
        train: TrainingSet,
        probe: list[Item],
        tokenizer: Any,
        started: float,
    ) -> None:
        """Take the parts; train and probe are the items of the splits."""
        folder = Path(job.output)
        self.job, self.heart, self.flag, self.task, self.tokenizer = job, heart, flag, task, tokenizer
        self.train_items = train
        self.recorder = Recorder(job, heart, started)
        self.control = Control(folder, writes=is_main())
        self.checkpoints = folder / "checkpoints"
        self.checkpoints.mkdir(exist_ok=True)
        self.probe = SessionProbe(task, probe, job.probe.max_completion_length, tokenizer)
        self.probe_items = probe
        self.steps = 0
        self.tokens = 0
        self.start: dict[str, Any] | None = None
        self.stop: dict[str, Any] | None = None
        self._tokens_before = 0
        self._stop_request: Request | None = None
        self._checkpoint_requests: list[Request] = []

    def progress(self, step: int, stage_tokens: int) -> None:
        """A step was done; tokens count from the stage's start in this job."""
        self.heart.step = self.steps = step
        self.tokens = self._tokens_before + stage_tokens

    def end_stage(self) -> None:
        """The tokens of the stage are booked."""
        self._tokens_before = self.tokens

    def measure(self, model: Any) -> dict[str, float]:
        """Score the probe; its seconds are a key of their own and no part of the step's."""
        begun = time.perf_counter()
        with self.heart.phase("probe"):
            found = self.probe.measure(model)
        return {**found, "time/probe_s": time.perf_counter() - begun}

    def poll(self, step: int) -> list[Request]:
        """New requests, on every process those that the main one read; a signal counts wherever it came."""
        found, self.flag.count = from_main((self.control.poll(step) if is_main() else [], self.flag.count))
        return list(found)

    def ask(self, request: Request) -> None:
        """Keep a request: a checkpoint waits for a generation boundary, a stop for its checkpoint."""
        if request.kind == "checkpoint":
            self._checkpoint_requests.append(request)
        elif self._stop_request is None:
            self._stop_request = request
        elif request.kind == "stop_now" and self._stop_request.kind == "stop":
            self.control.answer(self._stop_request, self.steps, False, f"overtaken by {request.id}")
            self._stop_request = request
        else:
            self.control.answer(request, self.steps, True, f"stopping already ({self._stop_request.id})")

    @property
    def _stop(self) -> Request | None:
        if self._stop_request is not None or not self.flag.count:
            return self._stop_request
        return Request(SIGNAL, "stop" if self.flag.count == 1 else "stop_now", {"reason": SIGNAL})

    @property
    def abrupt(self) -> bool:
        """Whether the job is to end without a checkpoint."""
        return self.flag.count > 1 or (self._stop is not None and self._stop.kind == "stop_now")

    def wants_checkpoint(self) -> bool:
        """Whether a request waits for a checkpoint."""
        return self._stop is not None or bool(self._checkpoint_requests)

    def saved(self, step: int) -> None:
        """A checkpoint of this step is on disk."""
        for request in self._checkpoint_requests:
            self.control.answer(request, step, True, f"checkpoints/{step}")
        self._checkpoint_requests.clear()

    def stopping(self, last: bool, boundary: bool) -> bool:
        """Whether the stage ends here because of a request, which is then answered."""
        request = self._stop
        if request is None or not (boundary or self.abrupt):
            return False
        finished = last and self.steps == self.job.steps
        self.stop = {"id": request.id, "kind": request.kind, "reason": str(request.args.get("reason", ""))}
        if request.id != SIGNAL:
            message = "all steps were done" if finished else f"stopped after step {self.steps}"
            self.control.answer(request, self.steps, True, message)
        for waiting in self._checkpoint_requests:
            self.control.answer(waiting, self.steps, False, "the job stopped without a checkpoint")
        return True

    def saved_checkpoints(self) -> list[dict[str, Any]]:
        """The finished checkpoints."""
        return list_checkpoints(self.checkpoints)
