"""A job on vLLM for CPUs: `python run_job.py job.json [none|all|later]`, run in its own environment.

The second argument injects stale weights: `all` never hands the trainer's weights to the engine, `later`
does so before the first generation only.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


def keep_weights() -> None:
    """Leave linear layers as they are: vLLM for CPUs packs them once and would miss later weights."""
    import torch
    from vllm.model_executor.layers import utils

    def plain(layer: Any, remove_weight: bool = True) -> None:
        layer.cpu_linear = lambda x, weight, bias: torch.nn.functional.linear(x, weight, bias)

    utils.dispatch_cpu_unquantized_gemm = plain
    for name, module in list(sys.modules.items()):
        if name.startswith("vllm.") and hasattr(module, "dispatch_cpu_unquantized_gemm"):
            module.dispatch_cpu_unquantized_gemm = plain


def stale(kind: str) -> None:
    """Drop weight synchronisations."""
    from trl.generation.vllm_generation import VLLMGeneration

    plain, calls = VLLMGeneration.sync_weights, []

    def sync(self: Any) -> None:
        calls.append(None)
        if kind == "later" and len(calls) == 1:
            plain(self)

    VLLMGeneration.sync_weights = sync


if __name__ == "__main__":
    import vllm.model_executor.layers.linear  # noqa: F401

    keep_weights()
    if sys.argv[2:] and sys.argv[2] != "none":
        stale(sys.argv[2])
    from harness.run import main

    sys.exit(main(sys.argv[1:2]))
