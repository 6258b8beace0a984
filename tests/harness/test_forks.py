"""Starts: exact resumes, and forks that take weights under the fork rules."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

LR = 1e-4
CLOCK = ("time", "wall_s", "step_time", "memory/peak_gib", "weights/changed_share")
"""What a resume does not repeat: clocks, memory, the share of weights changed since this job began."""


def weights(done, step):
    return load_file(done.checkpoint(step) / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def timeless(row):
    return {key: value for key, value in row.items() if key not in CLOCK and not key.startswith("time/")}


def at(done, step, mode="weights"):
    return {"start": {"mode": mode, "node": "n001", "step": step, "path": str(done.checkpoint(step))}}


@pytest.fixture(scope="module")
def fork(run, straight):
    """Run a fork of the straight run's last checkpoint."""

    def go(arguments=None, steps=3, **rules):
        own = {"beta": 0.05, "num_iterations": 2, "learning_rate": 3e-5} | (arguments or {})
        return run(arguments=own, steps=steps, fork=rules, job=at(straight, 8))

    return go


@pytest.fixture(scope="module")
def kept(fork):
    return fork(optimizer="keep")


# ---- exact


@pytest.fixture(scope="module")
def resumed(run, straight):
    return run(arguments={"beta": 0.05, "num_iterations": 2}, steps=8, job=at(straight, 4, "exact"))


def test_an_exact_resume_is_bit_equal_to_the_run_that_was_not_interrupted(straight, resumed):
    assert resumed.result["status"] == "completed"
    assert same(weights(straight, 8), weights(resumed, 8))


def test_an_exact_resume_logs_the_same_rows(straight, resumed):
    assert resumed.series("step") == [5, 6, 7, 8]
    for row in resumed.rows:
        assert timeless(row) == timeless(straight.rows[row["step"] - 1])


def test_an_exact_resume_leaves_an_equal_optimiser_and_random_state(straight, resumed):
    for name in ("optimizer", "rng", "sampler"):
        one, other = (torch.load(done.checkpoint(8) / "state" / f"{name}.pt") for done in (straight, resumed))
        assert str(one) == str(other)


def test_an_exact_resume_with_a_decaying_rate_and_a_change_in_flight_goes_on_as_it_was(run, job_value):
    arguments = {"lr_scheduler_type": "linear"}
    value = job_value(arguments=arguments, steps=4)
    request = {"id": "r1", "kind": "set", "args": {"learning_rate": 5e-5, "epsilon": 0.1}}
    control = {"schema_version": 1, "seq": 1, "requests": [request]}
    (Path(value["output"]) / "control.json").write_text(json.dumps(control))
    whole = run(value=value)
    rest = run(arguments=arguments, steps=4, job=at(whole, 2, "exact"))
    assert whole.series("learning_rate") == pytest.approx([1e-4, 3.75e-5, 2.5e-5, 1.25e-5])
    assert rest.series("learning_rate") == whole.series("learning_rate")[2:]
    assert same(weights(whole, 4), weights(rest, 4))


def test_an_exact_resume_refuses_another_recipe(run, straight):
    done = run(
        arguments={"beta": 0.05, "num_iterations": 2, "learning_rate": 2e-4},
        steps=8,
        job=at(straight, 4, "exact"),
    )
    assert done.result["status"] == "failed"
    assert "stages[0].arguments.learning_rate is 0.0002, and was 0.0001" in done.result["reason"]


def test_an_exact_resume_may_have_more_steps(run, straight):
    done = run(arguments={"beta": 0.05, "num_iterations": 2}, steps=10, job=at(straight, 8, "exact"))
    assert (done.result["status"], done.series("step")) == ("completed", [9, 10])


def test_an_exact_resume_in_the_middle_of_a_generation_batch_is_refused(run):
    done = run(arguments={"num_iterations": 2}, steps=3)
    rest = run(arguments={"num_iterations": 2}, steps=4, job=at(done, 3, "exact"))
    assert "in the middle of a generation batch" in rest.result["reason"]


def test_an_exact_resume_gives_hooks_their_state_back(run, module):
    """Every kind of state at once: a sampler, an advantage hook and a callback, with two updates a batch."""

    class Remembers:
        """Shrinks advantages by how often it was called; skips a prompt that it has seen."""

        def __init__(self):
            self.calls = 0
            self.mean = torch.zeros(1)

        def group(self, inputs):
            self.calls += 1
            self.mean = 0.5 * self.mean + 0.5 * inputs.rewards_P_G.mean()
            return inputs.advantages_P_G / self.calls + self.mean

        def choose(self, inputs):
            self.calls += 1
            return [(index + self.calls) % inputs.size for index in inputs.proposed_P]

        def after_step(self, inputs):
            self.calls += 1
            return {"learning_rate": 1e-4 / self.calls}

        def state_dict(self):
            return {"calls": self.calls, "mean": self.mean}

        def load_state_dict(self, state):
            self.calls, self.mean = state["calls"], state["mean"]

    ref = module("hooks", Remembers=Remembers)
    hooks = [{"point": point, "ref": f"{ref}:Remembers"} for point in ("sampler", "advantages", "callbacks")]
    arguments = {"num_iterations": 2, "beta": 0.05}
    whole = run(arguments=arguments, steps=8, hooks=hooks)
    rest = run(arguments=arguments, steps=8, hooks=hooks, job=at(whole, 4, "exact"))
    assert whole.result["status"] == rest.result["status"] == "completed"
    assert same(weights(whole, 8), weights(rest, 8))
    for name in ("hooks", "optimizer", "rng"):
        one, other = (torch.load(done.checkpoint(8) / "state" / f"{name}.pt") for done in (whole, rest))
        assert str(one) == str(other)
    for row in rest.rows:
        assert timeless(row) == timeless(whole.rows[row["step"] - 1])


# ---- weights


@pytest.mark.parametrize("optimizer", ["keep", "reset"])
def test_the_learning_rate_asked_is_in_force_from_the_first_step_to_the_last(fork, kept, optimizer):
    done = kept if optimizer == "keep" else fork(optimizer="reset")
    assert done.series("learning_rate") == pytest.approx([3e-5] * 3, rel=1e-12)


def test_a_rewarmup_ramps_from_zero_to_the_learning_rate_asked(fork):
    done = fork(optimizer="reset", rewarmup_steps=3, steps=5)
    assert done.series("learning_rate") == pytest.approx([0.0, 1e-5, 2e-5, 3e-5, 3e-5])


def test_a_decay_over_the_node_starts_at_the_top_and_one_over_the_study_goes_on(fork):
    arguments = {"lr_scheduler_type": "linear"}
    node = fork(arguments=arguments, steps=2, lr_horizon="node")
    study = fork(arguments=arguments, steps=2, lr_horizon="study")
    assert node.series("learning_rate") == pytest.approx([3e-5, 1.5e-5])
    assert study.series("learning_rate") == pytest.approx([3e-5 * 2 / 10, 3e-5 * 1 / 10])


def test_adam_is_kept_or_reset_as_asked(fork, straight, kept):
    before = torch.load(straight.checkpoint(8) / "state" / "optimizer.pt")["state"][0]["step"]
    after = torch.load(kept.checkpoint(3) / "state" / "optimizer.pt")["state"][0]["step"]
    fresh = torch.load(fork(optimizer="reset").checkpoint(3) / "state" / "optimizer.pt")["state"][0]["step"]
    assert (before, after, fresh) == (8, 11, 3)


def test_a_fork_starts_with_the_parents_policy(kept, straight):
    start = kept.result["start"]
    assert start["logprob_gap"] == pytest.approx(0.0, abs=1e-6)
    assert start["probe_accuracy"] == straight.rows[-1]["probe/accuracy"]
    assert (start["mode"], start["optimizer"], start["sampler"]) == ("weights", "keep", "continue")


def test_the_kl_before_the_first_update_equals_the_parents_last(kept, straight):
    last = json.loads((straight.checkpoint(8) / "state" / "training.json").read_text())["kl_reference"]
    assert last > 1e-4
    assert kept.result["start"]["kl_before_first_update"] == pytest.approx(last, rel=0.05)
    assert kept.result["start"]["kl_before_first_update"] == pytest.approx(
        straight.rows[-1]["kl_start"], rel=0.05
    )


def test_the_reference_is_the_study_base_unless_the_parent_is_asked_for(fork, kept):
    parent = fork(reference="parent")
    assert kept.result["start"]["reference"].endswith("tiny")
    assert kept.rows[0]["kl"] > 1e-5
    assert parent.result["start"]["kl_before_first_update"] == pytest.approx(0.0, abs=1e-7)
    assert parent.rows[0]["kl"] == pytest.approx(0.0, abs=1e-7)


def test_an_exact_resume_of_a_fork_keeps_its_reference_and_ramp(run, straight):
    arguments = {"beta": 0.05, "learning_rate": 3e-5}
    rules = {"optimizer": "reset", "rewarmup_steps": 4, "reference": "parent"}
    whole = run(arguments=arguments, steps=6, fork=rules, job=at(straight, 8))
    rest = run(arguments=arguments, steps=6, fork=rules, job=at(whole, 2, "exact"))
    assert rest.series("learning_rate") == pytest.approx([1.5e-5, 2.25e-5, 3e-5, 3e-5])
    assert same(weights(whole, 6), weights(rest, 6))


def test_the_sampler_goes_on_where_the_parent_stopped_or_begins_another_order(fork, kept, straight):
    def prompts(done, step):
        import pyarrow.parquet as pq

        files = (done.folder / "rollouts").glob("*.parquet")
        rows = [row for file in files for row in pq.read_table(file).to_pylist() if row["step"] == step]
        return {row["prompt_id"] for row in rows}

    seen = set().union(*(prompts(straight, step) for step in range(1, 9)))
    assert len(seen) == 16
    assert not seen & prompts(kept, 1)
    again = prompts(fork(sampler="reshuffle"), 1)
    assert again != prompts(kept, 1)
    assert again != prompts(straight, 1)


def test_a_fork_whose_policy_is_not_the_parents_fails(run, straight, tmp_path):
    shutil.copytree(straight.checkpoint(8), tmp_path / "8")
    state = load_file(tmp_path / "8" / "model.safetensors")
    save_file(
        {name: 1.3 * value for name, value in state.items()},
        tmp_path / "8" / "model.safetensors",
        {"format": "pt"},
    )
    start = {"mode": "weights", "node": "n001", "step": 8, "path": str(tmp_path / "8")}
    done = run(steps=2, job={"start": start})
    assert done.result["status"] == "failed"
    assert done.result["failure"]["type"] == "ForkGapError"
    assert "at most 0.05 is allowed" in done.result["reason"]
    assert done.rows == []


def test_keeping_adam_without_its_state_is_refused_by_name(run, straight, tmp_path):
    shutil.copytree(straight.checkpoint(8), tmp_path / "8")
    (tmp_path / "8" / "state" / "optimizer.pt").unlink()
    start = {"mode": "weights", "node": "n001", "step": 8, "path": str(tmp_path / "8")}
    done = run(steps=2, job={"start": start})
    assert "stages[0].fork.optimizer = 'keep'" in done.result["reason"]


def test_a_start_that_is_no_checkpoint_is_refused_by_name(run, tmp_path):
    done = run(job={"start": {"mode": "weights", "node": "n001", "step": 8, "path": str(tmp_path)}})
    assert "is not a checkpoint" in done.result["reason"]
