"""Hooks by their refs: imported, built, and their needs held against what the run can give."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.contract import HookSpec, split_ref
from harness.hooks import api
from harness.hooks.api import HookError, Need

METHODS: dict[str, tuple[tuple[str, type], ...]] = {
    "sampler": (("choose", api.SamplerHook),),
    "rollouts": (("draw", api.RolloutHook),),
    "rewards": (("components", api.RewardHook),),
    "advantages": (("group", api.GroupAdvantageHook), ("tokens", api.TokenAdvantageHook)),
    "loss": (("term", api.LossHook), ("objective", api.ObjectiveHook)),
    "callbacks": (("after_step", api.CallbackHook),),
}
"""The methods of each hook point, any of which makes a hook of it."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run can give to hooks."""

    reference: bool
    sampler_logps: bool
    steps_per_generation: int
    verifier: str
    components: tuple[str, ...]
    micro_batch: int = 0
    """Rows of a micro-batch, 0 where it is not known."""
    group_size: int = 1
    logits: bool = False
    entropy_bonus: bool = False
    processes: int = 1


def load_hook(spec: HookSpec) -> Any:
    """The hook of a spec, built with its parameters.

    Raises:
        HookError: file or class is missing, the parameters do not fit, or the class lacks its point's method.
    """
    module, name = split_ref(spec.ref, "hooks", "hooks")
    try:
        kind = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise HookError(f"{spec.ref}: there is no such file in the workspace") from None
    except AttributeError:
        raise HookError(f"{spec.ref}: the file has no class {name}") from None
    try:
        inspect.signature(kind).bind(**spec.params)
    except TypeError as error:
        raise hook_error(spec.ref, kind, "__init__", f"params {spec.params!r}: {error}") from None
    hook = kind(**spec.params)
    methods = METHODS[spec.point]
    if not any(isinstance(hook, protocol) for _, protocol in methods):
        wanted = " or ".join(method for method, _ in methods)
        raise HookError(f"{spec.ref}: a hook at {spec.point!r} needs the method {wanted}")
    return hook


def needs(hook: Any) -> set[str]:
    """What a hook says that it needs."""
    return {str(need) for need in getattr(hook, "needs", ())}


def check_needs(spec: HookSpec, hook: Any, facts: RunFacts) -> None:
    """Refuse a hook whose needs the run cannot meet.

    Raises:
        HookError: a need is unknown or cannot be met; the message says what to change.
    """
    for need in sorted(needs(hook)):
        if need not in list(Need):
            raise HookError(f"{spec.ref}: needs {need!r}; what can be needed: {', '.join(Need)}")
        if reason := _unmet(Need(need), facts):
            raise HookError(f"{spec.ref}: needs {need}, but {reason}")


def _unmet(need: Need, facts: RunFacts) -> str:
    if need is Need.REFERENCE and not facts.reference:
        return "there is no reference: set beta above 0"
    if need is Need.SAMPLER_LOGPS and not facts.sampler_logps:
        return "the generation of this run returns none: leave use_transformers_continuous_batching off"
    if need is Need.LOGITS and not facts.logits:
        return "this run computes its loss without logits"
    split = facts.steps_per_generation > 1 or facts.processes > 1
    if need is Need.WHOLE_GROUPS and split and facts.micro_batch % facts.group_size:
        return (
            f"per_device_train_batch_size = {facts.micro_batch} is not a multiple of num_generations = "
            f"{facts.group_size}, so that groups are split over micro-batches"
        )
    return ""


def check_objectives(named: Sequence[tuple[str, Any]], facts: RunFacts) -> None:
    """Refuse two whole objectives, and an entropy bonus that a whole objective would drop silently.

    Raises:
        HookError: naming the hooks.
    """
    refs = [ref for ref, hook in named if hasattr(hook, "objective")]
    if len(refs) > 1:
        raise HookError(f"{' and '.join(refs)}: each is a whole objective; a stage has one at most")
    if refs and facts.entropy_bonus:
        raise HookError(
            f"{refs[0]}: is the whole objective, and TRL's entropy bonus no part of it: remove entropy_coef "
            "and use_adaptive_entropy"
        )


def hook_error(ref: str, hook: Any, method: str, message: str) -> HookError:
    """An error that is the fault of a hook's method, with the method's place."""
    kind = hook if inspect.isclass(hook) else type(hook)
    function = inspect.unwrap(getattr(kind, method, kind))
    code = getattr(function, "__code__", None)
    if code is None:
        return HookError(f"{ref}: {message}")
    return HookError(f"{ref}: {message}", code.co_filename, code.co_firstlineno)
