from random import Random

import pytest

from autotrainer.errors import ConfigError
from autotrainer.search.base import SearchContext
from autotrainer.search.puct import Puct, shrunk_values
from autotrainer.search.registry import POLICIES, policy
from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.tree.finding import Severity
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.tree import Tree

ALL = pytest.mark.parametrize("name", sorted(POLICIES))
BOTH = pytest.mark.parametrize("name", ["best-first", "puct"])


def at(progress=0.8, drafts=0, max_depth=4):
    return SearchContext(progress, Random(0), drafts, max_depth)


def grown(*devs):
    builder = TreeBuilder()
    builder.base(dev=0.1)
    return builder, [builder.completed(builder.node(), dev) for dev in devs]


@ALL
def test_drafts_come_first(name):
    builder, _ = grown(0.5)
    assert policy(name).select(builder.tree, at(drafts=2)) == "n000"


@BOTH
def test_with_clear_differences_the_best_node_is_branched_from_late(name):
    builder, nodes = grown(0.2, 0.6, 0.4)
    assert policy(name).select(builder.tree, at(progress=1.0)) == nodes[1]


@BOTH
def test_a_pruned_node_with_an_unanswered_finding_is_selected_first(name):
    builder, _ = grown(0.5)
    lost = builder.pruned(builder.node(), a_finding())
    assert policy(name).select(builder.tree, at(drafts=3)) == lost


@BOTH
def test_an_answered_finding_is_not_answered_again(name):
    builder, (good,) = grown(0.5)
    lost = builder.pruned(builder.node(), a_finding())
    builder.node(lost, finding_node=lost)
    assert policy(name).select(builder.tree, at(progress=1.0)) == good


@BOTH
def test_two_seeds_of_a_lost_recipe_are_answered_once(name):
    builder, (good,) = grown(0.5)
    one, two = (builder.node(purpose=Purpose.CAREFUL) for _ in range(2))
    builder.pruned(one, a_finding())
    builder.pruned(two, a_finding())
    builder.node(one, finding_node=one)
    assert policy(name).select(builder.tree, at(progress=1.0)) == good


@BOTH
def test_after_three_repairs_in_a_row_a_branch_is_given_up(name):
    builder, (good,) = grown(0.5)
    lost = builder.pruned(builder.node(good, knobs={"learning_rate": 9e-4}), a_finding())
    for attempt in range(3):
        assert policy(name).select(builder.tree, at()) == lost
        child = builder.node(lost, finding_node=lost, knobs={"learning_rate": 8e-4 - attempt * 1e-4})
        lost = builder.pruned(child, a_finding())
    assert policy(name).select(builder.tree, at(progress=1.0)) == good


def test_a_draft_lost_at_a_rate_above_one_that_works_asks_for_nothing():
    builder, (good,) = grown(0.5)
    builder.pruned(builder.node(knobs={"learning_rate": 1e-3}), a_finding())
    assert Puct().select(builder.tree, at(progress=1.0)) == good


@BOTH
def test_failed_invalid_and_deepest_nodes_are_not_branched_from(name):
    builder, (good,) = grown(0.3)
    failed = builder.running(builder.node())
    builder.emit("node_state", node=failed, state="failed", reason="patch")
    invalid = builder.completed(builder.node(), 0.9)
    builder.emit("node_validity", node=invalid, validity="invalid", reason="frozen files changed")
    deep = builder.completed(builder.node(good), 0.8)
    assert policy(name).select(builder.tree, at(progress=1.0, max_depth=2)) == good
    assert policy(name).select(builder.tree, at(progress=1.0, max_depth=3)) == deep


@BOTH
def test_a_policy_waits_only_while_something_runs(name):
    builder = TreeBuilder()
    builder.base()
    first = builder.running(builder.node())
    assert policy(name).select(builder.tree, at()) is None
    builder.emit("node_state", node=first, state="failed", reason="patch")
    assert policy(name).select(builder.tree, at()) == "n000"


@BOTH
def test_a_node_that_was_only_found_healthy_asks_for_no_repair(name):
    builder, (good,) = grown(0.5)
    builder.pruned(builder.node(), a_finding("healthy", severity=Severity.INFO, kills=False))
    assert policy(name).select(builder.tree, at(progress=1.0)) == good


def test_workers_spread_out_over_nodes_of_equal_worth():
    builder, nodes = grown(0.5, 0.5)
    chosen = []
    for _ in range(2):
        chosen.append(Puct().select(builder.tree, at()))
        builder.running(builder.node(chosen[-1]))
    assert sorted(chosen) == nodes


def test_a_node_whose_children_are_lost_falls_behind():
    builder, (best, second, _, _) = grown(0.6, 0.59, 0.2, 0.2)
    builder.completed(builder.node(second), 0.6)
    for place in range(2):
        child = builder.node(best, knobs={"learning_rate": 9e-4 - place * 1e-4})
        builder.pruned(child, a_finding())
        builder.completed(builder.node(best, finding_node=child), 0.1)
    assert Puct().select(builder.tree, at(progress=1.0, max_depth=2)) == second


def test_without_exploration_a_running_child_still_counts_against_its_parent():
    builder, (best, second, _) = grown(0.6, 0.5, 0.2)
    greedy = Puct(explore_early=0.0, explore_late=0.0)
    builder.completed(builder.node(second), 0.55)
    assert greedy.select(builder.tree, at(progress=1.0, max_depth=2)) == best
    builder.running(builder.node(best))
    assert greedy.select(builder.tree, at(progress=1.0, max_depth=2)) == second


def test_early_the_base_is_widened_and_late_it_is_not():
    builder, nodes = grown(0.5, 0.5)
    builder.completed(builder.node(nodes[0]), 0.5)
    builder.completed(builder.node(nodes[1]), 0.5)
    assert Puct().select(builder.tree, at(progress=0.3, max_depth=2)) == "n000"
    assert Puct().select(builder.tree, at(progress=0.9, max_depth=2)) != "n000"


def test_a_draft_whose_path_could_not_be_finished_is_not_made():
    builder, nodes = grown(0.5, 0.4)
    builder.completed(builder.node(nodes[0]), 0.5)
    little = SearchContext(0.3, Random(0), 0, 4, nodes=16, rounds_left=2.0)
    assert Puct().select(builder.tree, little) != "n000"


def test_half_of_a_depth_is_gone_on_from_before_anything_else():
    builder, nodes = grown(0.3, 0.6, 0.5, 0.4)
    first = Puct().select(builder.tree, at(progress=0.2))
    builder.running(builder.node(first))
    second = Puct().select(builder.tree, at(progress=0.2))
    builder.running(builder.node(second))
    assert [first, second] == [nodes[1], nodes[2]]
    assert Puct().select(builder.tree, at(progress=0.2)) == "n000"


def test_the_prior_decides_between_nodes_of_equal_worth():
    builder, nodes = grown(0.5, 0.5, 0.5)
    for node in nodes:
        builder.completed(builder.node(node), 0.5)
    favoured = Puct(prior=lambda node: 5.0 if node.id == nodes[2] else 1.0)
    assert favoured.select(builder.tree, at(max_depth=2)) == nodes[2]


def test_differences_within_the_seeds_noise_have_no_value():
    builder = TreeBuilder()
    builder.base(dev=0.40)
    builder.careful_seeds(0.39, 0.41)
    builder.completed(builder.node(), 0.405)
    assert set(shrunk_values(builder.tree).values()) == {0.5}


def test_clear_differences_keep_their_ranks_within_a_depth():
    builder, nodes = grown(0.3, 0.5, 0.7)
    deeper = builder.completed(builder.node(nodes[0]), 0.9)
    values = shrunk_values(builder.tree)
    assert values[nodes[0]] < values[nodes[1]] < values[nodes[2]]
    assert 0.9 < values[nodes[2]] <= 1.0
    assert values[deeper] == 0.5


def test_equal_scores_have_equal_values():
    builder, nodes = grown(0.5, 0.5, 0.7)
    values = shrunk_values(builder.tree)
    assert values[nodes[0]] == values[nodes[1]]


@ALL
def test_a_choice_depends_on_the_tree_alone(name):
    builder, _ = grown(0.3, 0.5, 0.45)
    builder.running(builder.node("n002"))
    again = Tree.replay(builder.events)
    assert policy(name).select(builder.tree, at()) == policy(name).select(again, at())


def test_an_unknown_policy_is_refused_with_the_known_ones():
    with pytest.raises(
        ConfigError, match="unknown policy 'greedy': known are asha, best-first, pbt, puct, restarts"
    ):
        policy("greedy")
