"""A model of SmolLM2-135M's size with random weights, where the hub cannot be reached.

Compute and memory of a step depend on the architecture and the lengths, not on what the weights have learnt:
completions of random weights run to the cap, which both sides then share. Its tokenizer is the tiny model's,
with the vocabulary of the output layer as large as SmolLM2's.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

TINY = Path(__file__).resolve().parents[2] / "autotrainer" / "models" / "tiny"
CONFIG = LlamaConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    max_position_embeddings=8192,
    rope_theta=100000.0,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
)
"""The published configuration of HuggingFaceTB/SmolLM2-135M-Instruct, without its token ids."""


def build(folder: Path) -> Path:
    """Write the model with the tiny model's tokenizer and return the folder."""
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    for path in TINY.glob("*token*"):
        shutil.copyfile(path, folder / path.name)
    for path in TINY.glob("*.jinja"):
        shutil.copyfile(path, folder / path.name)
    tiny = LlamaConfig.from_pretrained(TINY)
    CONFIG.bos_token_id, CONFIG.eos_token_id, CONFIG.pad_token_id = (
        tiny.bos_token_id,
        tiny.eos_token_id,
        tiny.pad_token_id,
    )
    LlamaForCausalLM(CONFIG).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
