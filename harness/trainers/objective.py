"""A loss hook's whole objective in place of TRL's loss. Frozen."""

from __future__ import annotations

from typing import Any

import torch


def whole_objective(trainer: Any, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """The objective's loss of a micro-batch, with what TRL's own loss would have logged: kl and entropy.

    kl is TRL's estimate, mean of exp(ref - new) - (ref - new) - 1 over tokens, and logged only where there is
    a reference; whether it is part of the loss is the objective's choice.
    """
    ids_B_L = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    attention_B_L = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    mask_B_T = inputs["completion_mask"] * inputs.get("tool_mask", 1)
    logps_B_T, entropies_B_T, aux_loss = trainer._get_per_token_logps_and_entropies(
        model,
        ids_B_L,
        attention_B_L,
        inputs["completion_ids"].size(1),
        compute_entropy=True,
        compute_aux_loss=trainer.aux_loss_enabled,
    )
    loss: torch.Tensor = trainer.stage.objective(trainer)
    if aux_loss is not None:
        loss = loss + trainer.router_aux_loss_coef * aux_loss / trainer.current_gradient_accumulation_steps
    with torch.no_grad():
        logged = {"entropy": entropies_B_T}
        if "ref_per_token_logps" in inputs:
            difference_B_T = inputs["ref_per_token_logps"] - logps_B_T
            logged["kl"] = torch.exp(difference_B_T) - difference_B_T - 1
        for name, value_B_T in logged.items():
            sums = torch.stack([(value_B_T * mask_B_T).sum(), mask_B_T.sum().float()])
            sums = trainer.accelerator.reduce(sums, reduction="sum")
            trainer._metrics["train"][name].append((sums[0] / sums[1].clamp(min=1.0)).item())
    return loss
