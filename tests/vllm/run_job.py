"""A job on vLLM for CPUs: `python run_job.py job.json [none|all|later]`, run in its own environment.

The second argument injects stale weights: `all` begins with the study's base model in the engine and never
hands it the trainer's weights, `later` does so before the first generation only.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
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
    if kind != "all":
        return
    begin, base = VLLMGeneration._init_vllm, json.loads(Path(sys.argv[1]).read_text())["model"]["path"]

    def begin_with_base(self: Any) -> None:
        self.model.name_or_path = base
        begin(self)

    VLLMGeneration._init_vllm = begin_with_base


if __name__ == "__main__":
    import vllm.model_executor.layers.linear  # noqa: F401

    keep_weights()
    if sys.argv[2:] and sys.argv[2] != "none":
        stale(sys.argv[2])
    from harness.run import main

    sys.exit(main(sys.argv[1:2]))
