"""LoRA: adapters by TRL's own argument names, carried on, merged, or begun anew. Frozen.

A checkpoint of a LoRA stage holds the merged model, which anything can load, and beside it the adapter in
full precision with the path of its base. A stage goes on with a parent's adapter where the arguments are
equal; with another rank, or without LoRA, it begins at the merged weights.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from harness.contract import ContractError

ADAPTER = "adapter.safetensors"


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """The arguments of TRL's ModelConfig that describe an adapter, with its defaults but for dropout 0."""

    lora_r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    lora_target_modules: Any = "all-linear"
    use_rslora: bool = False

    def config(self) -> Any:
        """As peft takes it."""
        from peft import LoraConfig

        return LoraConfig(
            r=self.lora_r,
            lora_alpha=self.lora_alpha,
            lora_dropout=self.lora_dropout,
            target_modules=self.lora_target_modules,
            use_rslora=self.use_rslora,
            bias="none",
            task_type="CAUSAL_LM",
        )

    def as_json(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return asdict(self)


def take_lora(arguments: dict[str, Any], where: str) -> LoraSpec | None:
    """Take LoRA's arguments out of a stage's; None without `use_peft`.

    Raises:
        ContractError: an argument is of the wrong kind or out of range, or there is no use_peft.
    """
    names = tuple(LoraSpec.__dataclass_fields__)
    given = {name: arguments.pop(name) for name in names if arguments.get(name) is not None}
    for name in names:
        arguments.pop(name, None)
    if not arguments.pop("use_peft", False):
        if given:
            raise ContractError(f"{where}.{next(iter(given))} has no effect without use_peft = true")
        return None
    spec = LoraSpec(**given)
    rank: Any = spec.lora_r
    alpha: Any = spec.lora_alpha
    dropout: Any = spec.lora_dropout
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise ContractError(f"{where}.lora_r = {spec.lora_r!r} must be a whole number of at least 1")
    if not isinstance(alpha, int | float) or alpha <= 0:
        raise ContractError(f"{where}.lora_alpha = {spec.lora_alpha!r} must be a number above 0")
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ContractError(f"{where}.lora_dropout = {spec.lora_dropout!r} must be at least 0 and below 1")
    return spec


def is_lora(model: Any) -> bool:
    """Whether a model is a base with an adapter."""
    return hasattr(model, "peft_config")


def base_of(model: Any) -> Any:
    """The causal model itself, adapter layers inside."""
    return model.get_base_model() if is_lora(model) else model


def load_adapter(model: Any, path: Path) -> None:
    """Load an adapter's weights.

    Raises:
        ContractError: the file is of another adapter.
    """
    own, found = _adapter_weights(model), load_file(path)
    if {name: value.shape for name, value in own.items()} != {k: v.shape for k, v in found.items()}:
        raise ContractError(f"{path} is not of an adapter like this stage's")
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(found[name])


def save_adapter(model: Any, folder: Path) -> None:
    """Write the adapter's weights, as they are."""
    values = {name: value.detach().cpu().contiguous() for name, value in _adapter_weights(model).items()}
    save_file(values, folder / ADAPTER)


def save_merged(model: Any, folder: Path) -> None:
    """Write the model with its adapter added to the weights; the model itself stays as it is."""
    from peft.tuners.lora import LoraLayer

    base = base_of(model)
    state = {
        name.replace(".base_layer.", "."): value
        for name, value in base.state_dict().items()
        if ".lora_" not in name
    }
    with torch.no_grad():
        for name, layer in base.named_modules():
            if isinstance(layer, LoraLayer):
                linear: Any = layer
                for adapter in linear.active_adapters:
                    delta = linear.get_delta_weight(adapter)
                    state[f"{name}.weight"] = state[f"{name}.weight"] + delta
    with torch.device("meta"):
        # No memory, and none of the random numbers that belong to the training.
        empty = type(base)(base.config)
    empty.load_state_dict(state, assign=True)
    empty.tie_weights()
    empty.generation_config = base.generation_config
    empty.save_pretrained(folder)


def _adapter_weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value for name, value in model.named_parameters() if ".lora_" in name}
