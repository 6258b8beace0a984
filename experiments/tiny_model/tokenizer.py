"""The tiny model's tokenizer: one token a byte, and one a role marker."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PAD, END = "<|pad|>", "<|end|>"
MARKERS = (
    PAD,
    END,
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|tools|>",
    "<|tool_call|>",
    "<|tool_call_end|>",
)

# How `parse_response` reads a turn of the assistant back into content and tool calls.
_RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open": "<|tool_call|>",
            "close": "<|tool_call_end|>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|end\|>|$", "content": "text"},
    },
}


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose ids 0-255 are the bytes themselves, followed by the markers."""
    core = Tokenizer(models.BPE(vocab={symbol: byte for byte, symbol in _byte_symbols().items()}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(marker, special=True, normalized=False) for marker in MARKERS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        model_max_length=1024,
        clean_up_tokenization_spaces=False,
        response_template=_RESPONSE_TEMPLATE,
    )
    tokenizer.chat_template = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8")
    return tokenizer


def _byte_symbols() -> dict[int, str]:
    """Return the printable character by which `ByteLevel` stands for each byte (the table of GPT-2)."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + index) for index, byte in enumerate(moved)}
