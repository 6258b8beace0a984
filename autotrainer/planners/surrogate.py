"""Surrogate: a Gaussian process over knobs and depth, told what every node gained over its start.

Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), algorithm 2.1, with an additive
kernel: each knob has its own effect, the learning rate's changes with the depth of the start, and a small
term holds interactions. Hyperparameters are fixed, since a study has tens of nodes and not thousands. Gains
are in units of their own spread; lost nodes count as the worst gain that is still believed.

Axes: N nodes told, C candidates, K coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from autotrainer.planners.tpe import gain
from autotrainer.recipe.recipe import Stage
from autotrainer.search.frontier import base
from autotrainer.search.puct import seed_variance
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RATE, _DEPTH = 0, 1
_LENGTHS = (0.6, 2.0, 0.8, 0.6, 0.6, 1.0, 1.0, 0.6)
_AMPLITUDES = (1.0, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.05)
_TOGETHER = 0.2
_LOST, _BEHIND = -2.0, -0.7
"""Gain, in standard deviations, that a lost node counts as, and one that was stopped for being behind."""
_LEAST_TOLD = 3


def coordinates(careful: Stage, stage: Stage, depth: int) -> tuple[float, ...]:
    """A stage and the depth of its start as coordinates of order one."""
    knobs, start = stage.knobs, careful.knobs
    return (
        log(float(knobs["learning_rate"]) / float(start["learning_rate"])) / log(10.0),
        float(depth),
        4.0 * (float(knobs.get("temperature", 1.0)) - 1.0),
        log(1.0 + float(knobs.get("beta", 0.0)) / 1e-3) / log(31.0),
        float(knobs.get("entropy_coef", 0.0)) / 0.01,
        log(float(knobs["num_generations"]) / float(start["num_generations"]), 2),
        log(float(knobs.get("max_completion_length", 1)) / float(start.get("max_completion_length", 1)), 2),
        1.0 if knobs.get("loss_type") != start.get("loss_type") else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Prediction:
    """Expected gains of candidates and their standard deviations, in units of the gains' spread."""

    mean_C: Sequence[float]
    deviation_C: Sequence[float]


class Surrogate:
    """The model after the nodes of a tree; nodes under way are believed to do as expected."""

    def __init__(self, tree: Tree, careful: Stage) -> None:
        """Fit it."""
        self._careful = careful
        told, waiting = _told(tree, careful)
        self.known = len(told)
        if self.known < _LEAST_TOLD:
            return
        import numpy as np

        gains_N = np.array([told_gain for _, told_gain, _ in told if told_gain is not None])
        self._centre = float(np.median(gains_N)) if len(gains_N) else 0.0
        spread = float(np.std(gains_N)) if len(gains_N) > 1 else 0.0
        self._spread = max(spread, 1e-3)
        values = [
            stopped if value is None else max(_LOST, (value - self._centre) / self._spread)
            for _, value, stopped in told
        ]
        self._noise = float(min(1.0, max(0.05, 2.0 * seed_variance(tree) / self._spread**2)))
        self._points = np.array([point for point, *_ in told])
        self._values = np.array(values)
        if waiting:
            believed = self.predict(waiting).mean_C
            self._points = np.concatenate([self._points, np.array(waiting)])
            self._values = np.concatenate([self._values, np.array(believed)])

    @property
    def ready(self) -> bool:
        """Whether enough nodes were told for a prediction."""
        return self.known >= _LEAST_TOLD

    def predict(self, points: Sequence[tuple[float, ...]]) -> Prediction:
        """The gains to expect from the candidates."""
        import numpy as np

        asked = np.array(points)
        inner = _kernel(self._points, self._points) + self._noise * np.eye(len(self._points))
        across = _kernel(asked, self._points)
        lower = np.linalg.cholesky(inner)
        weights = np.linalg.solve(lower.T, np.linalg.solve(lower, self._values))
        half = np.linalg.solve(lower, across.T)
        own = sum(_AMPLITUDES) + _TOGETHER
        variance = np.maximum(1e-6, own - (half**2).sum(0))
        return Prediction((across @ weights).tolist(), np.sqrt(variance).tolist())


def _kernel(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    squares = ((one[:, None, :] - two[None, :, :]) / np.array(_LENGTHS)) ** 2
    alone = np.exp(-0.5 * squares)
    total = sum(amplitude * alone[:, :, axis] for axis, amplitude in enumerate(_AMPLITUDES) if axis != _RATE)
    rate_at_depth = alone[:, :, _RATE] * alone[:, :, _DEPTH]
    together = np.exp(-0.5 * squares.mean(2) * 2.0)
    result: NDArray[np.float64] = total + _AMPLITUDES[_RATE] * rate_at_depth + _TOGETHER * together
    return result


Told = tuple[tuple[float, ...], float | None, float]
"""A point, its gain, and what it counts as where it has none."""


def _told(tree: Tree, careful: Stage) -> tuple[list[Told], list[tuple[float, ...]]]:
    """Points with their gains, and the points of nodes under way."""
    told: list[Told] = []
    waiting: list[tuple[float, ...]] = []
    for node in tree.with_purpose(Purpose.SEARCH, Purpose.CAREFUL):
        point = coordinates(careful, node.proposal.recipe.stages[-1], start_depth(tree, node))
        if not node.state.is_terminal:
            waiting.append(point)
        elif node.score("dev") is not None and (value := gain(tree, node)) is not None:
            told.append((point, value, 0.0))
        elif node.state is NodeState.PRUNED:
            fatal = any(finding.kills for finding in node.findings)
            told.append((point, None, _LOST if fatal else _BEHIND))
    return told, waiting


def start_depth(tree: Tree, node: Node) -> int:
    """Edges between the base model and the checkpoint that a node starts from."""
    start = node.proposal.start.node
    return tree.depth(start) if start is not None and start != base(tree).id else 0
