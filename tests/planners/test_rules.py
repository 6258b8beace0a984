from dataclasses import replace

import pytest

from autotrainer.contract.metrics import Metrics
from autotrainer.errors import PlannerError
from autotrainer.planners.base import PlanningContext, planning_rng
from autotrainer.planners.rules import RulesPlanner, evidence
from autotrainer.recipe.recipe import HookRef
from autotrainer.testing.skills import ScriptedSkill, scripted
from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.tree.finding import Severity
from autotrainer.tree.proposal import Edge, Purpose, Start

LOWER = scripted("lower-lr", "collapse", ScriptedSkill(factors={"learning_rate": 0.1}, from_base=True))
GENTLER = scripted("gentler", "collapse", ScriptedSkill(factors={"learning_rate": 0.3}, before_onset=True))
LONGER = scripted("longer", "truncation", ScriptedSkill(knobs={"max_completion_length": 12}))
GROUPS = scripted("groups", "zero_advantage", ScriptedSkill(knobs={"num_generations": 16}))
FASTER = scripted("faster", "healthy", ScriptedSkill(factors={"learning_rate": 1.5}))
HEALTHY = a_finding("healthy", severity=Severity.INFO, kills=False)


def context(builder, *skills):
    return PlanningContext(
        tree=builder.tree,
        careful=builder.careful,
        steps=builder.steps,
        library={skill.card.id: skill for skill in skills},
        rng=planning_rng(0, len(builder.tree)),
        metrics=lambda node: Metrics([]),
        settings={},
    )


def propose(builder, parent, *skills):
    return RulesPlanner().propose(context(builder, *skills), parent)


def warn(kind, onset=10):
    return a_finding(kind, severity=Severity.WARNING, onset=onset, kills=False)


def with_bad_start():
    builder = TreeBuilder(overrides={"learning_rate": 1e-3})
    builder.base()
    return builder, builder.pruned(builder.node(purpose=Purpose.CAREFUL), a_finding("collapse", onset=15))


def test_a_collapsed_run_is_answered_by_the_skill_that_treats_it():
    builder, lost = with_bad_start()
    proposal = propose(builder, lost, LONGER, LOWER)
    assert (proposal.edge, proposal.start, proposal.parents) == (Edge.RESTART, Start(), (lost,))
    assert (proposal.skills, proposal.treats, proposal.finding_node) == (("lower-lr",), ("collapse",), lost)
    assert proposal.recipe.stages[-1].knobs["learning_rate"] == 1e-4
    assert proposal.recipe.seed != builder.tree[lost].proposal.recipe.seed


def test_a_repair_starts_from_the_last_checkpoint_before_the_onset():
    builder = TreeBuilder()
    builder.base()
    lost = builder.pruned(builder.node(), a_finding("collapse", onset=35), checkpoints=(20, 30, 40))
    proposal = propose(builder, lost, GENTLER)
    assert (proposal.edge, proposal.start) == (Edge.REPAIR, Start("weights", lost, 30))
    assert proposal.recipe.stages[-1].fork.optimizer == "reset"
    assert proposal.recipe.stages[-1].fork.rewarmup_steps == 10


def test_without_an_older_checkpoint_a_repair_goes_back_to_where_the_node_started():
    builder = TreeBuilder()
    builder.base()
    parent = builder.completed(builder.node(), 0.4)
    lost = builder.pruned(builder.node(parent, knobs={"learning_rate": 9e-4}), a_finding("collapse", onset=5))
    proposal = propose(builder, lost, GENTLER)
    assert (proposal.edge, proposal.start, proposal.parents) == (
        Edge.REPAIR,
        Start("weights", parent, 60),
        (lost,),
    )


def test_a_pruned_node_is_never_gone_on_from_where_it_ended():
    builder, lost = with_bad_start()
    proposal = propose(builder, lost)
    assert proposal.start == Start()
    assert proposal.treats == ("collapse",)
    assert proposal.recipe.stages[-1].knobs["learning_rate"] < 1e-3


def test_two_findings_are_answered_at_once_where_their_skills_do_not_touch():
    builder = TreeBuilder()
    builder.base()
    parent = builder.completed(
        builder.node(), 0.4, findings=[warn("truncation"), warn("zero_advantage", onset=3)]
    )
    proposal = propose(builder, parent, LONGER, GROUPS)
    assert (proposal.edge, proposal.start) == (Edge.TRANSITION, Start("weights", parent, 60))
    assert proposal.skills == ("groups", "longer")
    knobs = proposal.recipe.stages[-1].knobs
    assert (knobs["max_completion_length"], knobs["num_generations"]) == (12, 16)


def test_the_more_severe_finding_comes_first():
    builder = TreeBuilder()
    builder.base()
    collapse = replace(a_finding("collapse", onset=40), kills=False)
    parent = builder.completed(builder.node(), 0.4, findings=[warn("truncation", onset=2), collapse])
    first = scripted(
        "other-length", "truncation", ScriptedSkill(knobs={"max_completion_length": 24}, from_base=False)
    )
    assert propose(builder, parent, first, LOWER).skills == ("lower-lr",)


def test_a_skill_that_does_not_apply_is_passed_over():
    builder, lost = with_bad_start()
    unusable = scripted("unusable", "collapse", ScriptedSkill(factors={"learning_rate": 0.5}, usable=False))
    assert propose(builder, lost, unusable, GENTLER).skills == ("gentler",)


def test_the_skill_that_gained_more_in_this_study_is_tried_first():
    builder = TreeBuilder()
    builder.base(dev=0.3)
    for skill, dev in (("longer", 0.31), ("much-longer", 0.5)):
        first = builder.completed(builder.node(knobs={"learning_rate": 1.1e-4}), 0.3)
        builder.completed(builder.node(first, skills=[skill], knobs={"beta": 0.01}), dev)
    much = scripted("much-longer", "truncation", ScriptedSkill(knobs={"max_completion_length": 24}))
    parent = builder.completed(builder.node(), 0.4, findings=[warn("truncation")])
    assert evidence(builder.tree, "much-longer") == pytest.approx((0.2 - 0.105) / 2)
    assert propose(builder, parent, LONGER, much).skills == ("much-longer",)


def test_what_is_in_the_tree_already_is_not_proposed_again():
    builder, lost = with_bad_start()
    seen = []
    for _ in range(3):
        proposal = propose(builder, lost, LOWER, GENTLER)
        seen.append(proposal.skills)
        builder.propose(proposal)
    assert seen == [("lower-lr",), ("gentler",), ()]


def test_a_healthy_node_goes_on_as_it_is_before_skills_and_numbers_take_turns():
    builder = TreeBuilder()
    builder.base()
    parent = builder.completed(builder.node(), 0.4, findings=[HEALTHY])
    seen = []
    for _ in range(3):
        seen.append(propose(builder, parent, FASTER))
        builder.propose(seen[-1])
    assert [(node.edge, node.skills) for node in seen] == [
        (Edge.CONTINUE, ()),
        (Edge.TRANSITION, ("faster",)),
        (Edge.TRANSITION, ()),
    ]
    old, new = builder.tree[parent].proposal.recipe.stages[-1].knobs, seen[2].recipe.stages[-1].knobs
    assert sum(old.get(name) != new[name] for name in new) >= 2
    assert seen[2].start == Start("weights", parent, 60)


def test_a_skill_that_did_worse_than_nothing_in_this_study_is_not_tried_on_healthy_nodes():
    builder = TreeBuilder()
    builder.base(dev=0.3)
    for beta in (0.01, 0.02, 0.03):
        builder.completed(builder.node(knobs={"beta": beta}), 0.4)
    builder.completed(builder.node("n001"), 0.5)
    builder.completed(builder.node("n001", skills=["faster"], knobs={"beta": 0.5}), 0.35)
    parent = builder.completed(builder.node(), 0.45, findings=[HEALTHY])
    builder.propose(propose(builder, parent, FASTER))
    assert propose(builder, parent, FASTER).skills == ()


def test_a_reward_that_rises_while_dev_falls_is_treated_as_hacking():
    builder = TreeBuilder()
    builder.base(dev=0.4)
    parent = builder.completed(builder.node(), 0.3, findings=[HEALTHY])
    anchor = scripted("anchor", "reward_hacking", ScriptedSkill(knobs={"beta": 0.04}))
    rising = Metrics({"step": step, "reward": 0.3 + 0.01 * step} for step in range(1, 61))
    asked = replace(context(builder, anchor), metrics=lambda node: rising)
    assert RulesPlanner().propose(asked, parent).skills == ("anchor",)


def test_numeric_moves_stay_below_a_learning_rate_that_has_killed():
    builder, _ = with_bad_start()
    parent = builder.completed(builder.node(knobs={"learning_rate": 9e-4}), 0.4, findings=[HEALTHY])
    builder.propose(propose(builder, parent))
    for _ in range(20):
        proposal = propose(builder, parent)
        assert proposal.recipe.stages[-1].knobs["learning_rate"] <= 7e-4
        builder.propose(proposal)


def test_drafts_vary_the_careful_recipe_and_keep_completions_a_step():
    builder = TreeBuilder()
    builder.base()
    drafts = [propose(builder, "n000")]
    for _ in range(9):
        builder.propose(drafts[-1])
        drafts.append(propose(builder, "n000"))
    rates = [draft.recipe.stages[0].knobs["learning_rate"] for draft in drafts]
    assert rates[:3] == [3e-4, 3.33e-5, 1e-4]
    for draft in drafts:
        knobs = draft.recipe.stages[0].knobs
        assert knobs["num_generations"] * knobs["prompts_per_step"] == 64
        assert (draft.edge, draft.parents, draft.start) == (Edge.DRAFT, ("n000",), Start())


def test_after_a_collapse_of_the_careful_recipe_drafts_vary_the_answer():
    builder, lost = with_bad_start()
    builder.propose(propose(builder, lost, LOWER))
    assert propose(builder, "n000").recipe.stages[0].knobs["learning_rate"] == 3e-4


def test_a_hook_of_the_parent_stays_and_a_changed_one_is_replaced():
    hook = HookRef("loss", "hooks/entropy.py:Entropy", {"coef": 0.01})
    first = scripted("entropy", "entropy_drift", ScriptedSkill(hooks=(hook,)))
    stronger = scripted("stronger", "truncation", ScriptedSkill(hooks=(replace(hook, params={"coef": 0.1}),)))
    builder = TreeBuilder()
    builder.base()
    parent = builder.completed(builder.node(), 0.4, findings=[warn("entropy_drift")])
    child = builder.propose(propose(builder, parent, first))
    builder.completed(child, 0.5, findings=[warn("truncation")])
    assert propose(builder, child, LONGER).recipe.stages[-1].hooks == (hook,)
    assert [h.params["coef"] for h in propose(builder, child, stronger).recipe.stages[-1].hooks] == [0.1]


def test_a_planner_with_nothing_new_says_so(monkeypatch):
    builder, lost = with_bad_start()
    builder.propose(propose(builder, lost, LOWER))
    monkeypatch.setattr("autotrainer.planners.rules.TRIES", 0)
    with pytest.raises(PlannerError, match=f"nothing new to offer for node {lost}"):
        propose(builder, lost, LOWER)


def test_a_skill_that_would_raise_the_rate_to_one_that_killed_is_passed_over():
    builder, _ = with_bad_start()
    parent = builder.completed(builder.node(knobs={"learning_rate": 8e-4}), 0.4, findings=[HEALTHY])
    assert propose(builder, parent, FASTER).skills == ()
