"""The entropy coefficient as an integrator that holds the entropy at a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.hooks.api import StepInputs

LOWEST_TARGET = 0.2


class EntropyTarget:
    """Raises `entropy_coef` by `delta` a step below the target, lowers it above, from 0 to `ceiling`."""

    def __init__(self, share: float = 1.0, delta: float = 5e-4, ceiling: float = 0.01) -> None:
        """Take the target as a share of the first entropy, the step and the largest coefficient.

        Raises:
            ValueError: one of them is not positive.
        """
        for name, value in (("share", share), ("delta", delta), ("ceiling", ceiling)):
            if value <= 0:
                raise ValueError(f"{name} = {value!r} is not allowed: it must be above 0")
        self.share, self.delta, self.ceiling = share, delta, ceiling
        self._target: float | None = None

    def after_step(self, inputs: StepInputs) -> Mapping[str, float]:
        """The coefficient of the next step; nothing where no entropy was logged."""
        entropy = inputs.metrics.get("entropy")
        if not isinstance(entropy, int | float):
            return {}
        if self._target is None:
            self._target = max(LOWEST_TARGET, self.share * float(entropy))
        now = inputs.settings.get("entropy_coef", 0.0)
        step = self.delta if entropy < self._target else -self.delta
        return {"entropy_coef": min(self.ceiling, max(0.0, now + step))}

    def state_dict(self) -> dict[str, Any]:
        """The target."""
        return {"target": self._target}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the same target."""
        self._target = state["target"]
