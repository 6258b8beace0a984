"""How a stage has to start from the stage before it: the fork rules."""

from __future__ import annotations

from autotrainer.recipe.knobs import KNOBS
from autotrainer.recipe.recipe import Fork, HookRef, Stage

REWARMUP_STEPS = 10
"""Steps over which the learning rate rises again after Adam's moments were thrown away."""
_OBJECTIVE_POINTS = frozenset({"rewards", "advantages", "loss"})


def fork_for(old: Stage, new: Stage) -> Fork:
    """The fork that turns the end of `old` into the start of `new`.

    Adam's moments are thrown away, and the learning rate warmed up again, where they describe another
    landscape: another learning rate, batch or objective. Otherwise they are kept and there is no second
    warm-up. The reference stays the study's base model and the sampler goes on where it was, always.
    """
    if not restarts_adam(old, new):
        return Fork(optimizer="keep")
    return Fork(optimizer="reset", rewarmup_steps=min(REWARMUP_STEPS, new.steps // 2))


def restarts_adam(old: Stage, new: Stage) -> bool:
    """Whether learning rate, batch or objective differ, so that Adam's moments mean nothing any more."""
    if old.algorithm != new.algorithm or old.rewards != new.rewards or _objective(old) != _objective(new):
        return True
    changed = {
        name for name in old.knobs.keys() | new.knobs.keys() if old.knobs.get(name) != new.knobs.get(name)
    }
    return any(KNOBS[name].restarts_adam for name in changed)


def _objective(stage: Stage) -> tuple[HookRef, ...]:
    return tuple(hook for hook in stage.hooks if hook.point in _OBJECTIVE_POINTS)
