"""Short trajectories of a fixed seed, in classes of configurations that must train alike.

Within a class the gradients are the same sums in another order. Two checks: every step is close, and the
differences have no sign (a fault of scale is one-sided, rounding is not). One trajectory is pinned to
numbers, so that a change of what a step computes does not pass unseen; `python -m tests.numerics.record`
writes them anew.
"""

import json
import math
from pathlib import Path

import pytest

from tests.harness.conftest import data, job_value, module, run  # noqa: F401

PINNED = Path(__file__).with_name("trajectory.json")
STEPS = 4
KEYS = ("loss", "grad_norm", "entropy", "reward")
BASE = {"learning_rate": 3e-4, "temperature": 1.0, "loss_type": "dapo", "beta": 0.02, "num_iterations": 2}


def batch(rows, parts):
    return {
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": parts,
        "steps_per_generation": parts,
    }


CLASSES = {
    "accumulation": [batch(32, 1), batch(16, 2), batch(8, 4)],
    "grpo": [{"loss_type": "grpo", **batch(32, 1)}, {"loss_type": "grpo", **batch(16, 2)}],
    "dr_grpo": [{"loss_type": "dr_grpo", **batch(32, 1)}, {"loss_type": "dr_grpo", **batch(8, 4)}],
    "padding": [{}, {"token_budget": 48}, {"token_budget": 1}],
    "record": [{}, {"sampler_logps": True}],
}


def trajectory(done):
    assert done.result["status"] == "completed", done.result["reason"]
    return {key: [float(row[key]) for row in done.rows if key in row] for key in KEYS}


def check(one, other, rel=2e-3):
    for key in KEYS:
        for a, b in zip(one[key], other[key], strict=True):
            assert math.isclose(a, b, rel_tol=rel, abs_tol=2e-5), (key, one[key], other[key])
    residuals = [a - b for a, b in zip(one["grad_norm"], other["grad_norm"], strict=True)]
    assert abs(sum(residuals)) <= rel * sum(one["grad_norm"])


@pytest.mark.parametrize("name", CLASSES)
def test_configurations_of_a_class_train_alike(run, name):  # noqa: F811
    first, *others = (trajectory(run(arguments=BASE | given, steps=STEPS)) for given in CLASSES[name])
    for other in others:
        check(first, other)


def test_hooks_that_change_nothing_change_nothing(run, module):  # noqa: F811
    from harness.hooks.api import LossTerm, RolloutBatch

    class Nothing:
        needs = frozenset({"whole_groups", "entropies", "reference"})

        def choose(self, inputs):
            return inputs.proposed_P

        def components(self, inputs):
            return {}

        def group(self, inputs):
            return inputs.advantages_P_G

        def term(self, inputs):
            return LossTerm(0.0 * inputs.logps_B_T.sum(), {})

        def after_step(self, inputs):
            return {}

    class SameDraw:
        def draw(self, inputs):
            return RolloutBatch(
                inputs.generate([row for row in inputs.rows_P for _ in range(inputs.group_size)])
            )

    ref = module("hooks", Nothing=Nothing, SameDraw=SameDraw)
    points = ("sampler", "rewards", "advantages", "loss", "callbacks")
    hooks = [{"point": point, "ref": f"{ref}:Nothing"} for point in points]
    hooks.append({"point": "rollouts", "ref": f"{ref}:SameDraw"})
    plain = trajectory(run(arguments=BASE, steps=STEPS))
    assert trajectory(run(arguments=BASE, steps=STEPS, hooks=hooks)) == plain


def test_the_pinned_trajectory_is_still_there(run):  # noqa: F811
    pinned = json.loads(PINNED.read_text())
    assert pinned["arguments"] == BASE
    check(trajectory(run(arguments=BASE, steps=STEPS)), pinned["trajectory"], rel=1e-3)
