"""The hooks of a stage: loaded, checked against what the run can give, composed in the order of job.json."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.contract import HookSpec, split_ref
from harness.hooks import api
from harness.hooks.api import HookError, Need

_METHODS: dict[str, tuple[tuple[str, type], ...]] = {
    "sampler": (("choose", api.SamplerHook),),
    "rewards": (("components", api.RewardHook),),
    "advantages": (("group", api.GroupAdvantageHook), ("tokens", api.TokenAdvantageHook)),
    "loss": (("term", api.LossHook),),
    "callbacks": (("after_step", api.CallbackHook),),
}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run can give to hooks."""

    reference: bool
    sampler_logps: bool
    steps_per_generation: int
    verifier: str
    components: tuple[str, ...]


class HookSet:
    """All hooks of a stage. Every method passes the result of one hook to the next."""

    def __init__(self, specs: Sequence[HookSpec], facts: RunFacts) -> None:
        """Load the hooks.

        Raises:
            HookError: a point is not supported, a class is missing or lacks its method, or a need cannot be
            met.
        """
        self._facts = facts
        self._hooks = [(spec, _load(spec)) for spec in specs]
        for spec, hook in self._hooks:
            _check_needs(spec, hook, facts)
        self.adds = self._added()

    def _at(self, method: str) -> Iterable[tuple[str, Any]]:
        for spec, hook in self._hooks:
            if any(name == method for name, _ in _METHODS[spec.point]) and hasattr(hook, method):
                yield spec.ref, hook

    def has(self, method: str) -> bool:
        """Whether any hook has this method at its point."""
        return any(True for _ in self._at(method))

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
                raise HookError(
                    f"{ref}: choose returned {chosen!r}, not {wanted} indices below {inputs.size}"
                )
            inputs = replace(inputs, proposed_P=chosen)
        return list(inputs.proposed_P)

    def components(self, inputs: api.RewardInputs) -> Mapping[str, torch.Tensor]:
        """The reward components after all hooks; the verifier's is as it was."""
        for ref, hook in self._at("components"):
            # Copies: a hook that writes into its input must not reach the verifier's values.
            shown = {name: value.clone() for name, value in inputs.components_N.items()}
            returned = dict(hook.components(replace(inputs, components_N=shown)))
            if self._facts.verifier in returned:
                raise HookError(f"{ref}: may not set {self._facts.verifier!r}: the verifier is frozen")
            for name, value in returned.items():
                if name not in inputs.components_N:
                    raise HookError(f"{ref}: sets {name!r}, which is not declared in adds")
                returned[name] = _tensor(ref, "components", value, inputs.components_N[name], finite=False)
            inputs = replace(inputs, components_N={**inputs.components_N, **returned})
        return inputs.components_N

    def group(self, inputs: api.GroupInputs) -> torch.Tensor:
        """advantages_P_G after all hooks."""
        for ref, hook in self._at("group"):
            value = _tensor(ref, "group", hook.group(inputs), inputs.advantages_P_G)
            inputs = replace(inputs, advantages_P_G=value)
        return inputs.advantages_P_G

    def tokens(self, inputs: api.LossInputs) -> torch.Tensor:
        """advantages_B_T after all hooks."""
        for ref, hook in self._at("tokens"):
            with torch.no_grad():
                value = _tensor(ref, "tokens", hook.tokens(_detached(inputs)), inputs.logps_B_T.detach())
            inputs = replace(inputs, advantages=value)
        return inputs.advantages

    def terms(self, inputs: api.LossInputs) -> list[api.LossTerm]:
        """The terms to add to the loss."""
        found = []
        for ref, hook in self._at("term"):
            term = hook.term(inputs)
            if not isinstance(term, api.LossTerm) or term.value.shape != ():
                raise HookError(f"{ref}: term must return a LossTerm whose value is a scalar tensor")
            found.append(term)
        return found

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


def _load(spec: HookSpec) -> Any:
    if spec.point not in _METHODS:
        supported = ", ".join(_METHODS)
        raise HookError(f"{spec.ref}: the point {spec.point!r} is not supported yet; supported: {supported}")
    module, name = split_ref(spec.ref, "hooks", "hooks")
    try:
        kind = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise HookError(f"{spec.ref}: there is no such file in the workspace") from None
    except AttributeError:
        raise HookError(f"{spec.ref}: the file has no class {name}") from None
    hook = kind(**spec.params)
    methods = _METHODS[spec.point]
    if not any(isinstance(hook, protocol) for _, protocol in methods):
        wanted = " or ".join(method for method, _ in methods)
        raise HookError(f"{spec.ref}: a hook at {spec.point!r} needs the method {wanted}")
    return hook


def _check_needs(spec: HookSpec, hook: Any, facts: RunFacts) -> None:
    for need in sorted(getattr(hook, "needs", ())):
        if need not in list(Need):
            raise HookError(f"{spec.ref}: needs {need!r}; what can be needed: {', '.join(Need)}")
        reason = {
            Need.REFERENCE: "" if facts.reference else "there is no reference: set beta above 0",
            Need.SAMPLER_LOGPS: "" if facts.sampler_logps else "only vLLM returns them: set use_vllm",
            Need.WHOLE_GROUPS: ""
            if facts.steps_per_generation == 1
            else (
                f"steps_per_generation is {facts.steps_per_generation}, and rows are shuffled before they "
                "are split: set gradient_accumulation_steps and steps_per_generation to 1"
            ),
            Need.LOGITS: "the fused head returns none, and the unfused forward is not supported yet",
        }[Need(need)]
        if reason:
            raise HookError(f"{spec.ref}: needs {need}, but {reason}")


def _detached(inputs: api.LossInputs) -> api.LossInputs:
    return replace(inputs, logps_B_T=inputs.logps_B_T.detach(), entropies_B_T=inputs.entropies_B_T.detach())


def _tensor(ref: str, method: str, value: Any, like: torch.Tensor, finite: bool = True) -> torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.shape != like.shape:
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise HookError(f"{ref}: {method} returned {shape}: need a tensor of shape {tuple(like.shape)}")
    if finite and not bool(torch.isfinite(value).all()):
        raise HookError(f"{ref}: {method} returned non-finite values")
    return value.detach().to(device=like.device, dtype=like.dtype)
