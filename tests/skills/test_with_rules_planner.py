"""The shipped diagnostics, the shipped skills and the rules planner together."""

from random import Random

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.triage import diagnose, first_kill
from autotrainer.library.loader import load_skills
from autotrainer.planners.base import PlanningContext
from autotrainer.planners.rules import RulesPlanner
from autotrainer.testing.runs import collapsed, run
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.proposal import Edge, Purpose


def propose(built, parent):
    context = PlanningContext(
        tree=built.tree,
        careful=built.careful,
        steps=60,
        library=load_skills(),
        rng=Random(0),
        metrics=lambda node: Metrics(()),
        settings={},
    )
    return RulesPlanner().propose(context, parent)


def test_the_answer_to_a_run_that_collapsed_at_a_rate_of_1e_3_comes_from_that_finding():
    built = TreeBuilder(overrides={"learning_rate": 1e-3})
    built.base()
    metrics = collapsed(onset=8)
    step, _ = first_kill(metrics, {}, 5)
    killed = built.pruned(built.node(purpose=Purpose.CAREFUL), *diagnose(metrics.until(step), {}))
    answer = propose(built, killed)
    assert (answer.skills, answer.treats, answer.finding_node) == (("lr-backoff",), ("collapse",), killed)
    assert (answer.edge, answer.start.mode) == (Edge.RESTART, "base")
    assert answer.recipe.stages[-1].knobs["learning_rate"] == 1e-4


def test_a_healthy_run_on_its_plateau_is_gone_on_from_with_several_changes_at_once():
    built = TreeBuilder()
    built.base()
    findings = diagnose(run(reward=0.6, noise=0.1, kl_start=0.2), {})
    node = built.completed(built.node(), 0.5, findings=findings)
    first = propose(built, node)
    assert (first.edge, first.start.node) == (Edge.CONTINUE, node)
    built.propose(first)
    answer = propose(built, node)
    assert (answer.edge, answer.start.node) == (Edge.TRANSITION, node)
    before, after = built.tree[node].proposal.recipe.stages[-1].knobs, answer.recipe.stages[-1].knobs
    assert sum(before.get(name) != value for name, value in after.items()) >= 2


def test_every_finding_of_a_shipped_diagnostic_has_a_skill_that_treats_it():
    from autotrainer.diagnostics.registry import kinds

    treated = {kind for skill in load_skills().values() for kind in skill.card.treats}
    assert kinds() == treated
