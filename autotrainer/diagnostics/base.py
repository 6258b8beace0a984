"""Diagnostic: a pure function of a run's metrics that yields findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from autotrainer.contract.metrics import Metrics
from autotrainer.tree.finding import Finding


class Diagnostic(Protocol):
    """One symptom.

    Pure: equal metrics and context give equal findings; no file, clock or random number is touched.

    `context` holds facts of the recipe that thresholds depend on: learning_rate, num_iterations, beta, steps
    (planned), max_completion_length, fork (bool), base_accuracy (on the probe, may be missing). Where the
    keys that a diagnostic needs were not logged, it yields nothing.
    """

    kind: ClassVar[str]
    """The name that skills treat."""
    pathology: ClassVar[str]
    """The class of the taxonomy, P01 ... P30."""
    needs: ClassVar[frozenset[str]]
    """Keys without which it cannot tell."""
    min_steps: ClassVar[int]
    """Rows that it needs before it says anything."""

    def check(self, metrics: Metrics, context: Mapping[str, Any]) -> Iterable[Finding]:
        """The findings, in the order of their onset."""
        ...
