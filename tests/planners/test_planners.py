import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrainer.contract.metrics import Metrics
from autotrainer.errors import ConfigError, PlannerError
from autotrainer.planners.base import PlanningContext, planning_rng
from autotrainer.planners.registry import PLANNERS, own_policy, planner
from autotrainer.recipe.forks import fork_for
from autotrainer.search.base import SearchContext
from autotrainer.search.frontier import signature
from autotrainer.search.registry import POLICIES, policy
from autotrainer.testing.skills import ScriptedSkill, scripted
from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.tree.finding import Severity
from autotrainer.tree.proposal import Edge, Proposal, Purpose
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

LIBRARY = {
    skill.card.id: skill
    for skill in (
        scripted("lower-lr", "collapse", ScriptedSkill(factors={"learning_rate": 0.3}, from_base=True)),
        scripted("gentler", "collapse", ScriptedSkill(factors={"learning_rate": 0.5}, before_onset=True)),
        scripted("longer", "truncation", ScriptedSkill(knobs={"max_completion_length": 12})),
        scripted("faster", "healthy", ScriptedSkill(factors={"learning_rate": 1.5})),
    )
}


def context(builder, seed):
    return PlanningContext(
        tree=builder.tree,
        careful=builder.careful,
        steps=builder.steps,
        library=LIBRARY,
        rng=planning_rng(seed, len(builder.tree)),
        metrics=lambda node: Metrics([]),
        settings={},
    )


def next_proposal(builder, seed, planner_name, policy_name, foreseen):
    search = SearchContext(min(1.0, len(builder.tree) / foreseen), planning_rng(seed, len(builder.tree)))
    parent = policy(policy_name).select(builder.tree, search)
    return None if parent is None else planner(planner_name).propose(context(builder, seed), parent)


def finish(builder, node):
    """A made-up task: best at a learning rate of 2e-4, lost above 6e-4, truncated in short completions."""
    rate = builder.tree[node].proposal.recipe.stages[-1].knobs["learning_rate"]
    if rate > 6e-4:
        builder.pruned(node, a_finding("collapse", onset=25), checkpoints=(20,))
        return
    short = builder.tree[node].proposal.recipe.stages[-1].knobs["max_completion_length"] < 12
    kind = "truncation" if short and rate > 1.5e-4 else "healthy"
    severity = Severity.WARNING if kind == "truncation" else Severity.INFO
    dev = 0.3 + 0.05 * builder.tree.depth(node) + 0.1 / (1 + abs(rate / 2e-4 - 1))
    builder.completed(node, dev, findings=[a_finding(kind, severity=severity, kills=False)])


def a_search(seed, planner_name, policy_name, nodes=14, slots=2):
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.38, 0.40)
    while len(builder.tree) < nodes:
        proposal = next_proposal(builder, seed, planner_name, policy_name, nodes)
        if proposal is not None:
            builder.propose(proposal)
        if proposal is None or len(builder.tree.active) == slots:
            finish(builder, builder.tree.active[0].id)
    return builder


FREE = sorted(set(PLANNERS) - {"asha", "pbt", "bracket", "llm"})
"""Planners that go with any policy and need no model; the others repeat and continue on purpose."""
PAIRS = sorted({*((p, s) for p in FREE for s in POLICIES), ("asha", "asha"), ("pbt", "pbt")})


@pytest.mark.parametrize(("planner_name", "policy_name"), PAIRS)
def test_a_search_never_proposes_the_same_training_twice(planner_name, policy_name):
    tree = a_search(3, planner_name, policy_name, nodes=24).tree
    asked = [signature(node.proposal) for node in tree.with_purpose(Purpose.SEARCH)]
    asked.append(signature(tree["n001"].proposal))
    assert all(one != other for place, one in enumerate(asked) for other in asked[:place])
    seeds = [node.proposal.recipe.seed for node in tree.nodes]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("planner_name", FREE)
def test_a_search_never_goes_on_from_a_lost_node_and_stays_within_the_depth(planner_name):
    tree = a_search(5, planner_name, "puct", nodes=24).tree
    for node in tree.with_purpose(Purpose.SEARCH):
        parent = tree[node.parent]
        assert parent.state in (NodeState.COMPLETED, NodeState.PRUNED)
        if parent.state is NodeState.PRUNED:
            assert (
                node.proposal.start.step < parent.findings[0].onset_step
                or node.proposal.start.node != parent.id
            )
            assert node.proposal.treats
            assert node.proposal.edge in (Edge.REPAIR, Edge.RESTART)
        assert sum(stage.steps for stage in tree.path_stages(node.id)) <= 4 * 60 + 20


@pytest.mark.parametrize("planner_name", FREE)
def test_every_fork_follows_the_rules(planner_name):
    tree = a_search(7, planner_name, "puct", nodes=20).tree
    forks = [node for node in tree.with_purpose(Purpose.SEARCH) if node.proposal.start.node is not None]
    assert forks
    for node in forks:
        before = tree.path_stages(node.id)[-2]
        stage = node.proposal.recipe.stages[-1]
        assert stage.fork == fork_for(before, stage)
        assert len(node.proposal.recipe.stages) == 1
        assert stage.steps == 60


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(PAIRS))
def test_the_next_proposal_is_a_function_of_the_prefix_and_the_seed(seed, pair):
    planner_name, policy_name = pair
    builder = a_search(seed, planner_name, policy_name, nodes=10)
    again = TreeBuilder(tree=Tree.replay(builder.events), events=list(builder.events))
    one = next_proposal(builder, seed, planner_name, policy_name, 10)
    other = next_proposal(again, seed, planner_name, policy_name, 10)
    assert one == other
    if one is not None:
        assert Proposal.from_json(one.to_json()) == one


def test_another_seed_gives_other_proposals():
    one, other = (a_search(seed, "random", "puct", nodes=6).tree.nodes[-1].proposal.recipe for seed in (1, 2))
    assert one.stages != other.stages


def test_the_first_answer_to_a_lost_careful_run_is_the_very_next_node():
    builder = TreeBuilder(overrides={"learning_rate": 1e-3})
    builder.base()
    finish(builder, builder.node(purpose=Purpose.CAREFUL))
    answer = next_proposal(builder, 0, "rules", "puct", 12)
    assert (answer.finding_node, answer.treats) == ("n001", ("collapse",))


def test_tpe_moves_towards_what_gained():
    builder = TreeBuilder()
    builder.base()
    for place in range(12):
        rate = 1e-5 * 1.45**place
        builder.completed(builder.node(knobs={"learning_rate": rate}), 0.5 - 0.1 * abs(place - 9))
    rates = []
    for seed in range(8):
        stage = planner("tpe").propose(context(builder, seed), "n000").recipe.stages[-1]
        rates.append(stage.knobs["learning_rate"])
    assert sum(rate > 1e-4 for rate in rates) >= 6


@pytest.mark.parametrize("seed", range(5))
def test_random_knobs_stay_in_a_sane_box(seed):
    builder = TreeBuilder()
    builder.base()
    knobs = planner("random").propose(context(builder, seed), "n000").recipe.stages[-1].knobs
    assert 1e-5 <= knobs["learning_rate"] <= 1e-3
    assert 0.7 <= knobs["temperature"] <= 1.2
    assert 0.0 <= knobs["beta"] <= 0.05
    assert knobs["num_generations"] * knobs["prompts_per_step"] == 64


def test_an_unknown_planner_is_refused_with_the_known_ones():
    with pytest.raises(
        ConfigError,
        match="unknown planner 'oracle': known are asha, bracket, cma, grid, llm, pbt, random, rules, tpe",
    ):
        planner("oracle")


def test_a_planner_brings_the_policy_that_it_is_meant_for():
    assert {name: own_policy(name) for name in PLANNERS} == {
        "asha": "asha",
        "bracket": "restarts",
        "cma": "restarts",
        "grid": "restarts",
        "llm": "puct",
        "pbt": "pbt",
        "random": "restarts",
        "rules": "puct",
        "tpe": "restarts",
    }


def test_asha_promotes_the_better_half_of_a_rung_and_passes_between_rungs_unasked():
    builder = TreeBuilder()
    builder.base()
    nodes = [builder.completed(builder.node(knobs={"beta": dev}), dev) for dev in (0.2, 0.5, 0.3, 0.4)]
    search = SearchContext(0.5, planning_rng(0, 5), 0, 4)
    assert policy("asha").select(builder.tree, search) == nodes[1]
    first = builder.completed(builder.node(nodes[1], knobs={"beta": 0.5}), 0.6)
    assert policy("asha").select(builder.tree, search) == nodes[3]
    second = builder.completed(builder.node(nodes[3], knobs={"beta": 0.4}), 0.55)
    assert policy("asha").select(builder.tree, search) == first
    third = builder.completed(builder.node(first, knobs={"beta": 0.5}), 0.65)
    assert policy("asha").select(builder.tree, search) == third
    builder.completed(builder.node(third, knobs={"beta": 0.5}), 0.7)
    assert policy("asha").select(builder.tree, search) == "n000"
    assert second != first


def test_pbt_replaces_the_worst_quarter_by_the_best_with_perturbed_knobs():
    builder = TreeBuilder()
    builder.base()
    for place, dev in enumerate((0.2, 0.5, 0.3, 0.4)):
        builder.completed(builder.node(knobs={"learning_rate": 1e-4 * (1 + place)}), dev)
    proposal = next_proposal(builder, 0, "pbt", "pbt", 8)
    assert proposal.parents == ("n002", "n001")
    assert proposal.start.node == "n002"
    builder.propose(proposal)
    going_on = next_proposal(builder, 0, "pbt", "pbt", 8)
    assert (going_on.parents, going_on.edge) == (("n002",), Edge.CONTINUE)


def test_the_careful_bracket_has_three_rates_and_three_seeds_of_the_best():
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4)
    rates = []
    for dev in (0.3, 0.5, 0.45, 0.5, 0.5):
        proposal = planner("bracket").propose(context(builder, 0), "n000")
        rates.append(proposal.recipe.stages[-1].knobs["learning_rate"])
        builder.completed(builder.propose(proposal), dev)
    assert rates == [3.33e-5, 3e-4, 9e-4, 3e-4, 3e-4]
    with pytest.raises(PlannerError, match="bracket is done"):
        planner("bracket").propose(context(builder, 0), "n000")


def test_cma_moves_towards_what_gained():
    builder = TreeBuilder()
    builder.base()
    for place in range(24):
        rate = 1e-5 * 1.21**place
        builder.completed(builder.node(knobs={"learning_rate": rate}), 0.3 + 0.01 * place)
    drawn = [
        planner("cma").propose(context(builder, seed), "n000").recipe.stages[-1].knobs["learning_rate"]
        for seed in range(8)
    ]
    assert sum(rate > 1e-4 for rate in drawn) >= 6
