"""ModelShape: what memory and time depend on, from config.json or from a model's name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotrainer.errors import ConfigError
from autotrainer.resources import resolve_model

_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*([mMbB])(?![a-zA-Z])")
_KNOWN: dict[str, tuple[float, int, int, int, int, int]] = {
    "qwen2.5-0.5b": (0.494e9, 24, 896, 4864, 128, 151_936),
    "qwen2.5-1.5b": (1.544e9, 28, 1536, 8960, 256, 151_936),
    "qwen2.5-3b": (3.086e9, 36, 2048, 11_008, 256, 151_936),
    "qwen2.5-7b": (7.616e9, 28, 3584, 18_944, 512, 152_064),
    "qwen3-0.6b": (0.596e9, 28, 1024, 3072, 1024, 151_936),
    "qwen3-1.7b": (1.72e9, 28, 2048, 6144, 1024, 151_936),
    "qwen3-4b": (4.02e9, 36, 2560, 9728, 1024, 151_936),
    "qwen3-8b": (8.19e9, 36, 4096, 12_288, 1024, 151_936),
    "llama-3.2-1b": (1.236e9, 16, 2048, 8192, 512, 128_256),
    "llama-3.2-3b": (3.213e9, 28, 3072, 8192, 1024, 128_256),
    "llama-3.1-8b": (8.03e9, 32, 4096, 14_336, 1024, 128_256),
    "smollm2-135m": (0.1345e9, 30, 576, 1536, 192, 49_152),
    "smollm2-360m": (0.362e9, 32, 960, 2560, 320, 49_152),
    "smollm2-1.7b": (1.711e9, 24, 2048, 8192, 2048, 49_152),
}
"""Parameters, layers, hidden size, intermediate size, width of keys (heads x head size), vocabulary."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder: numbers of parameters and layers, widths, vocabulary; `source` says where they are from."""

    parameters: float
    layers: int
    hidden: int
    intermediate: int
    kv_width: int
    vocabulary: int
    source: str

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token in bf16, over all layers: 2 x layers x kv_width x 2 bytes."""
        return 4 * self.layers * self.kv_width


def parameters_from_name(model: str) -> float | None:
    """The number of parameters that a model's name states (`...-0.5B-...`), or None."""
    match = _SIZE.search(model.replace("_", "-").replace("/", "-"))
    if match is None:
        return None
    return float(match[1]) * (1e9 if match[2] in "bB" else 1e6)


def shape_of(model: str) -> ModelShape:
    """The shape of a shipped model, a folder, a known family, or one scaled to the size in the name.

    Raises:
        ConfigError: the model is unknown, or nothing tells its size.
    """
    config = Path(resolve_model(model)) / "config.json"
    if config.is_file():
        return _from_config(json.loads(config.read_text(encoding="utf-8")), config)
    name = model.lower()
    for known, values in _KNOWN.items():
        if known in name:
            return ModelShape(*values, source=f"known family {known}")
    size = parameters_from_name(model)
    if size is None:
        raise ConfigError(
            f"the size of model {model!r} is not known: give a folder with config.json, or a name that "
            "states it, as in owner/name-1.5B"
        )
    return _scaled(size)


def _scaled(size: float) -> ModelShape:
    """A shape of that many parameters in the proportions of Qwen2.5-1.5B: all widths and the depth scale."""
    parameters, layers, hidden, intermediate, kv_width, vocabulary = _KNOWN["qwen2.5-1.5b"]
    factor = (size / parameters) ** (1 / 3)
    return ModelShape(
        parameters=size,
        layers=max(2, round(layers * factor)),
        hidden=max(64, round(hidden * factor)),
        intermediate=max(128, round(intermediate * factor)),
        kv_width=max(32, round(kv_width * factor)),
        vocabulary=vocabulary,
        source="scaled to the size in the name",
    )


def _from_config(value: dict[str, Any], path: Path) -> ModelShape:
    value = value.get("text_config", value)
    try:
        hidden, layers = int(value["hidden_size"]), int(value["num_hidden_layers"])
        heads = int(value["num_attention_heads"])
        intermediate, vocabulary = int(value["intermediate_size"]), int(value["vocab_size"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is not the config of a decoder: {error} is missing or no number"
        ) from error
    head = int(value.get("head_dim") or hidden // heads)
    kv_width = int(value.get("num_key_value_heads") or heads) * head
    attention = 2 * hidden * heads * head + 2 * hidden * kv_width
    tables = 1 if value.get("tie_word_embeddings") else 2
    parameters = layers * (attention + 3 * hidden * intermediate + 2 * hidden)
    parameters += tables * vocabulary * hidden + hidden
    return ModelShape(parameters, layers, hidden, intermediate, kv_width, vocabulary, source=str(path.name))
