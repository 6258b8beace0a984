"""Time of a GRPO step on one device, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from autotrainer.budget.device_table import Device
from autotrainer.budget.memory import Batch
from autotrainer.budget.model_shape import ModelShape

TRAIN_SHARE, PREFILL_SHARE, DECODE_SHARE = 0.35, 0.4, 0.6
"""Shares of the peaks that are reached: FLOPs in training and prefill, bandwidth in decoding."""
DECODE_OVERHEAD_S = {"CPU": 0.005}
"""Seconds a decoded token costs at least with TRL's own generation: launches and Python."""
_GPU_DECODE_OVERHEAD_S = 0.025
STEP_OVERHEAD_S = 0.3
"""Optimiser, logging, the recorder, data."""
REWARD_S = 0.0002
"""Seconds a completion takes to verify."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one optimiser step by part."""

    generate: float
    reward: float
    logprobs: float
    train: float
    overhead: float

    @property
    def total(self) -> float:
        """The whole step."""
        return self.generate + self.reward + self.logprobs + self.train + self.overhead

    def to_json(self) -> Mapping[str, float]:
        """The parts and the total, in seconds."""
        return {**asdict(self), "total": self.total}


def step_time(
    shape: ModelShape,
    batch: Batch,
    device: Device,
    *,
    mean_share: float = 0.6,
    num_iterations: int = 1,
    beta: float = 0.0,
    checkpointing: bool = True,
) -> StepTime:
    """Seconds of a step.

    A forward pass is 2, a backward 4 operations a parameter and token (Kaplan et al. 2020, section 2.1); with
    checkpointing the forward is done twice. Decoding reads weights (bf16) and the keys and values so far for
    every token of the longest completion, or is held up by launches. `mean_share` is the mean length of a
    completion as a share of the cap; a reference adds a forward pass, several iterations another for the old
    log-probs.
    """
    parameters, cap = shape.parameters, batch.completion_tokens
    tokens = batch.sequences * (batch.prompt_tokens + mean_share * cap)
    forward = 2.0 * parameters * tokens
    passes = 4.0 if checkpointing else 3.0
    train = num_iterations * passes * forward / (TRAIN_SHARE * device.flops)
    extra = (beta > 0) + (num_iterations > 1)
    cached = batch.sequences * shape.kv_bytes_per_token * (batch.prompt_tokens + mean_share * cap / 2)
    read = (2.0 * parameters + cached) / (DECODE_SHARE * device.bandwidth)
    compute = 2.0 * parameters * batch.sequences / (PREFILL_SHARE * device.flops)
    launch = DECODE_OVERHEAD_S.get(device.kind, _GPU_DECODE_OVERHEAD_S)
    prefill = 2.0 * parameters * batch.sequences * batch.prompt_tokens / (PREFILL_SHARE * device.flops)
    return StepTime(
        generate=prefill + cap * (max(read, launch) + compute),
        reward=REWARD_S * batch.sequences,
        logprobs=extra * forward / (PREFILL_SHARE * device.flops),
        train=train,
        overhead=0.02 if device.kind == "CPU" else STEP_OVERHEAD_S,
    )
