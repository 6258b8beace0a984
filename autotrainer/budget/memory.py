"""Memory of a GRPO job on one device, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from autotrainer.budget.model_shape import ModelShape

GIB = 2.0**30
OVERHEAD_GIB = 1.5
"""CUDA context, allocator slack and fragmentation."""
FUSED_HEAD_TOKENS = 1024
"""Tokens whose logits exist at a time under TRL's fused head."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one optimiser step sees: sequences, those of one pass, tokens of prompt and completion (cap)."""

    sequences: int
    micro: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def length(self) -> int:
        """Tokens of a sequence at the cap."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Memory:
    """Peak memory in GiB by part. Weights, gradients and Adam are float32, computation is bf16.

    `activations` is the larger of the passes; the key-value cache of generation is given back before them,
    so the peak has the larger of the two.
    """

    weights: float
    gradients: float
    optimizer: float
    reference: float
    activations: float
    kv_cache: float
    overhead: float

    @property
    def total(self) -> float:
        """The peak."""
        fixed = self.weights + self.gradients + self.optimizer + self.reference + self.overhead
        return fixed + max(self.activations, self.kv_cache)

    def to_json(self) -> Mapping[str, float]:
        """The parts and the total, in GiB."""
        return {**asdict(self), "total": self.total}


def job_memory(shape: ModelShape, batch: Batch, *, beta: float, checkpointing: bool, cpu: bool) -> Memory:
    """Peak memory of full-weight GRPO.

    Weights 4, gradients 4, Adam's moments 8 bytes a parameter; a reference of 4 where beta > 0 (Rajbhandari
    et al. 2020, ZeRO, section 3, with float32 master weights only). Activations of a layer: s b h (34) bytes
    (Korthikanti et al. 2022, eq. 2, attention fused, its 5as/h term gone); with checkpointing 2 s b h bytes
    a layer and one layer in full. The head's logits exist for FUSED_HEAD_TOKENS tokens at a time, in float32,
    with their gradient.
    """
    parameter = shape.parameters / GIB
    tokens = batch.micro * batch.length
    layer = 34.0 * tokens * shape.hidden * (shape.intermediate / (4.0 * shape.hidden) + 1.0) / 2.0
    kept = 2.0 * tokens * shape.hidden * shape.layers
    passes = kept + layer if checkpointing else layer * shape.layers
    logits = 8.0 * min(tokens, FUSED_HEAD_TOKENS) * shape.vocabulary
    width = 2.0 if cpu else 1.0  # float32 computes on a CPU
    return Memory(
        weights=4.0 * parameter,
        gradients=4.0 * parameter,
        optimizer=8.0 * parameter,
        reference=4.0 * parameter if beta > 0 else 0.0,
        activations=(width * passes + logits) / GIB,
        kv_cache=width * shape.kv_bytes_per_token * batch.sequences * batch.length / GIB,
        overhead=0.5 if cpu else OVERHEAD_GIB,
    )


def largest_micro_batch(
    shape: ModelShape, batch: Batch, memory_gib: float, *, beta: float, checkpointing: bool, cpu: bool
) -> int | None:
    """The most sequences a pass, of those that divide the batch, that fit; None where not even one does."""
    for micro in range(batch.sequences, 0, -1):
        if batch.sequences % micro:
            continue
        trial = Batch(batch.sequences, micro, batch.prompt_tokens, batch.completion_tokens)
        if job_memory(shape, trial, beta=beta, checkpointing=checkpointing, cpu=cpu).total <= memory_gib:
            return micro
    return None
