"""The hooks of a stage, composed in the order of job.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from harness.contract import HookSpec
from harness.hooks import api
from harness.hooks.api import HookError, Need
from harness.trainers.hook_loading import (
    METHODS,
    RunFacts,
    check_needs,
    check_objectives,
    hook_error,
    load_hook,
    needs,
)

__all__ = ["HookSet", "RunFacts"]


class HookSet:
    """All hooks of a stage. Every method passes the result of one hook to the next."""

    def __init__(self, specs: Sequence[HookSpec], facts: RunFacts) -> None:
        """Load the hooks.

        Raises:
            HookError: a class is missing or lacks its method, a need cannot be met, or two hooks are whole
            objectives.
        """
        self._facts = facts
        self._hooks = [(spec, load_hook(spec)) for spec in specs]
        for spec, hook in self._hooks:
            check_needs(spec, hook, facts)
        check_objectives([(spec.ref, hook) for spec, hook in self._hooks if spec.point == "loss"], facts)
        for ref, hook in self._at("draw"):
            if facts.processes > 1 and isinstance(hook, api.StatefulHook):
                raise HookError(
                    f"{ref}: a rollouts hook with a state runs in one process, not {facts.processes}"
                )
        self.adds = self._added()

    def _at(self, method: str) -> Iterable[tuple[str, Any]]:
        for spec, hook in self._hooks:
            if any(name == method for name, _ in METHODS[spec.point]) and hasattr(hook, method):
                yield spec.ref, hook

    def has(self, method: str) -> bool:
        """Whether any hook has this method at its point."""
        return any(True for _ in self._at(method))

    def needs(self, need: Need) -> bool:
        """Whether any hook needs it."""
        return any(need in needs(hook) for _, hook in self._hooks)

    def _added(self) -> dict[str, float]:
        added: dict[str, float] = {}
        for ref, hook in self._at("components"):
            for name, weight in dict(getattr(hook, "adds", {})).items():
                if name in added or name in self._facts.components:
                    raise HookError(f"{ref}: adds component {name!r}, which is there already")
                added[name] = float(weight)
        return added

    def choose(self, inputs: api.SamplerInputs) -> list[int]:
        """The prompts of the next generation batch."""
        for ref, hook in self._at("choose"):
            chosen = tuple(int(index) for index in hook.choose(inputs))
            wanted = len(inputs.proposed_P)
            if len(chosen) != wanted or not all(0 <= index < inputs.size for index in chosen):
                message = f"choose returned {chosen!r}, not {wanted} indices below {inputs.size}"
                raise hook_error(ref, hook, "choose", message)
            inputs = replace(inputs, proposed_P=chosen)
        return list(inputs.proposed_P)

    def draw(self, inputs: api.RolloutInputs) -> api.RolloutBatch | None:
        """The completions to train on; None without a hook."""
        for ref, hook in self._at("draw"):
            batch = hook.draw(inputs)
            if fault := _fault(batch, inputs):
                raise hook_error(ref, hook, "draw", f"draw {fault}")
            inputs = replace(inputs, proposed=batch)
        return inputs.proposed

    def components(self, inputs: api.RewardInputs) -> Mapping[str, torch.Tensor]:
        """The reward components after all hooks; the verifier's is as it was."""
        for ref, hook in self._at("components"):
            # Copies: a hook that writes into its input must not reach the verifier's values.
            shown = {name: value.clone() for name, value in inputs.components_N.items()}
            returned = dict(hook.components(replace(inputs, components_N=shown)))
            if self._facts.verifier in returned:
                message = f"may not set {self._facts.verifier!r}: the verifier is frozen"
                raise hook_error(ref, hook, "components", message)
            for name, value in returned.items():
                if name not in inputs.components_N:
                    raise hook_error(ref, hook, "components", f"sets {name!r}, which is not declared in adds")
                returned[name] = _tensor(
                    ref, hook, "components", value, inputs.components_N[name], finite=False
                )
            inputs = replace(inputs, components_N={**inputs.components_N, **returned})
        return inputs.components_N

    def group(self, inputs: api.GroupInputs) -> torch.Tensor:
        """advantages_P_G after all hooks."""
        for ref, hook in self._at("group"):
            value = _tensor(ref, hook, "group", hook.group(inputs), inputs.advantages_P_G)
            inputs = replace(inputs, advantages_P_G=value)
        return inputs.advantages_P_G

    def tokens(self, inputs: api.LossInputs) -> torch.Tensor:
        """advantages_B_T after all hooks."""
        for ref, hook in self._at("tokens"):
            with torch.no_grad():
                value = hook.tokens(_detached(inputs))
                value = _tensor(ref, hook, "tokens", value, inputs.logps_B_T.detach())
            inputs = replace(inputs, advantages=value)
        return inputs.advantages

    def terms(self, inputs: api.LossInputs) -> list[api.LossTerm]:
        """The terms to add to the loss."""
        return [_term(ref, hook, "term", hook.term(inputs)) for ref, hook in self._at("term")]

    def objective(self, inputs: api.LossInputs) -> api.LossTerm:
        """The whole loss.

        Raises:
            HookError: no hook is an objective, or it returned no scalar with a graph.
        """
        for ref, hook in self._at("objective"):
            term = _term(ref, hook, "objective", hook.objective(inputs))
            if not term.value.requires_grad:
                raise hook_error(ref, hook, "objective", "objective returned a value without a graph")
            return term
        raise HookError("no hook of the stage is a whole objective")

    def after_step(self, inputs: api.StepInputs) -> dict[str, tuple[str, float]]:
        """Settings to change, each with the ref of the hook that asked; the last hook wins."""
        asked: dict[str, tuple[str, float]] = {}
        for ref, hook in self._at("after_step"):
            asked |= {name: (ref, float(value)) for name, value in hook.after_step(inputs).items()}
        return asked

    def state_dict(self) -> dict[str, Any]:
        """The state of the hooks that have one, by place and ref."""
        return {
            f"{place}:{spec.ref}": hook.state_dict()
            for place, (spec, hook) in enumerate(self._hooks)
            if isinstance(hook, api.StatefulHook)
        }

    def load_state_dict(self, state: Mapping[str, Any], strict: bool) -> None:
        """Give every hook its state back; without `strict` a hook without a state starts fresh.

        Raises:
            HookError: strict, and the hooks are others than those that the state is of.
        """
        wanted = set(self.state_dict())
        if strict and wanted != set(state):
            raise HookError(f"an exact resume needs the state of {sorted(wanted)}; it is of {sorted(state)}")
        for place, (spec, hook) in enumerate(self._hooks):
            if (key := f"{place}:{spec.ref}") in state and key in wanted:
                hook.load_state_dict(state[key])


def _fault(batch: Any, inputs: api.RolloutInputs) -> str:
    """What is wrong with a rollouts hook's batch; empty where nothing is."""
    prompts, size = len(inputs.rows_P), inputs.group_size
    if not isinstance(batch, api.RolloutBatch):
        return f"returned {type(batch).__name__}, not a RolloutBatch"
    if len(batch.draws_N) != prompts * size:
        return (
            f"returned {len(batch.draws_N)} draws: need {prompts} groups of {size}, {prompts * size} in all"
        )
    for first in range(0, len(batch.draws_N), size):
        group = batch.draws_N[first : first + size]
        if len({draw.row.prompt_id for draw in group}) != 1:
            return f"returned draws of more than one prompt in group {first // size}"
        if any(not 0 < len(draw.completion_ids) <= inputs.max_completion_length for draw in group):
            return f"returned a completion with no token, or with more than {inputs.max_completion_length}"
    for name, values in (("baselines_P", batch.baselines_P), ("scales_P", batch.scales_P)):
        if values is not None and len(values) != prompts:
            return f"returned {len(values)} {name}: need {prompts}"
    if batch.scales_P is not None and (batch.baselines_P is None or min(batch.scales_P) <= 0):
        return "returned scales_P without baselines_P, or one that is not above 0"
    return ""


def _term(ref: str, hook: Any, method: str, term: Any) -> api.LossTerm:
    if not isinstance(term, api.LossTerm) or term.value.shape != ():
        message = f"{method} must return a LossTerm whose value is a scalar tensor"
        raise hook_error(ref, hook, method, message)
    return term


def _detached(inputs: api.LossInputs) -> api.LossInputs:
    logits = inputs.logits_B_T_V
    return replace(
        inputs,
        logps_B_T=inputs.logps_B_T.detach(),
        entropies_B_T=inputs.entropies_B_T.detach(),
        logits_B_T_V=None if logits is None else logits.detach(),
    )


def _tensor(
    ref: str, hook: Any, method: str, value: Any, like: torch.Tensor, finite: bool = True
) -> torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.shape != like.shape:
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise hook_error(
            ref, hook, method, f"{method} returned {shape}: need a tensor of shape {tuple(like.shape)}"
        )
    if finite and not bool(torch.isfinite(value).all()):
        raise hook_error(ref, hook, method, f"{method} returned non-finite values")
    return value.detach().to(device=like.device, dtype=like.dtype)
