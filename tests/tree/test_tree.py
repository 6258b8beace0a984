import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrainer.errors import JournalError
from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.tree.event import Event
from autotrainer.tree.proposal import Purpose, Start
from autotrainer.tree.state import TRANSITIONS, NodeState, Validity, Verdict
from autotrainer.tree.tree import Tree


def a_study(seed):
    """A tree that grows at random: careful seeds, drafts, transitions, pruned and crashed nodes, verdicts."""
    rng, builder = random.Random(seed), TreeBuilder()
    builder.base()
    for _ in range(rng.randrange(2, 9)):
        parents = [node.id for node in builder.tree.nodes if node.state is NodeState.COMPLETED]
        node = builder.node(
            rng.choice(parents),
            knobs={"learning_rate": rng.choice([1e-4, 2e-4])},
            purpose=rng.choice([Purpose.SEARCH, Purpose.CAREFUL]),
        )
        end = rng.choice(["completed", "pruned", "crashed", "proposed", "invalid"])
        if end == "completed":
            builder.completed(node, rng.random(), rng.random(), [a_finding("truncation", kills=False)])
        elif end == "pruned":
            builder.pruned(node, a_finding(), checkpoints=(20,))
        elif end == "crashed":
            builder.emit("node_state", node=builder.running(node), state="queued", reason="crashed")
        elif end == "invalid":
            builder.completed(node, 0.9)
            builder.emit("node_validity", node=node, validity="invalid", reason="frozen files changed")
    builder.emit("node_verdict", node="n000", verdict="promoted", reason="nothing better", figures={})
    return builder


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_replaying_any_prefix_equals_the_live_tree(seed):
    events, live = a_study(seed).events, Tree()
    for place, event in enumerate(events):
        live.apply(Event.from_json(event.to_json()))
        assert Tree.replay(events[: place + 1]) == live


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_a_path_is_as_long_as_the_checkpoints_it_runs_through(seed):
    tree = a_study(seed).tree
    for node in tree.nodes[1:]:
        steps, start = node.proposal.recipe.steps, node.proposal.start
        while start.node is not None:
            steps += start.step
            start = tree[start.node].proposal.start
        assert sum(stage.steps for stage in tree.path_stages(node.id)) == steps
        assert tree.path_recipe(node.id, 7).stages[-1] == node.proposal.recipe.stages[-1]
        assert tree.path_recipe(node.id, 7).seed == 7
        assert tree.depth(node.id) == len(tree.lineage(node.id)) - 1


def test_a_path_is_cut_where_the_child_branched_off():
    builder = TreeBuilder(steps=60)
    builder.base()
    parent = builder.completed(builder.node(), 0.4)
    child = builder.node(parent, knobs={"beta": 0.1}, start=Start("weights", parent, 20))
    assert [stage.steps for stage in builder.tree.path_stages(child)] == [20, 60]
    assert [stage.knobs["beta"] for stage in builder.tree.path_stages(child)] == [0.0, 0.1]


ILLEGAL = [(one, other) for one in NodeState for other in NodeState if other not in TRANSITIONS[one]]


@pytest.mark.parametrize(("before", "after"), ILLEGAL)
def test_an_illegal_transition_is_refused_and_changes_nothing(before, after):
    builder = TreeBuilder()
    builder.base()
    node = builder.node()
    for state in _way_to(before):
        builder.emit("node_state", node=node, state=str(state), reason="")
    with pytest.raises(JournalError, match=f"{node} cannot go from {before} to {after}"):
        builder.emit("node_state", node=node, state=str(after), reason="")
    assert builder.tree[node].state is before
    assert Tree.replay(builder.events) == builder.tree


def _way_to(wanted):
    ways = {NodeState.PROPOSED: ()}
    while wanted not in ways:
        ways |= {
            after: (*way, after)
            for before, way in list(ways.items())
            for after in TRANSITIONS[before]
            if after not in ways
        }
    return ways[wanted]


@pytest.mark.parametrize(
    "kind", ["node_queued", "node_state", "node_finding", "node_scored", "node_validity", "node_verdict"]
)
def test_an_event_of_an_unknown_node_is_refused(kind):
    with pytest.raises(JournalError, match=f"{kind}.*unknown node 'n007'"):
        Tree().apply(Event(0, 0.0, kind, {"node": "n007"}))


def test_an_attempt_that_does_not_follow_the_last_one_is_refused():
    builder = TreeBuilder()
    builder.base()
    node = builder.running(builder.node())
    builder.emit("node_state", node=node, state="queued", reason="crashed")
    with pytest.raises(JournalError, match="attempt 3 does not follow 1"):
        builder.emit("job_submitted", node=node, attempt=3, job_id=f"{node}.3", device_s=1.0)


def test_a_second_outcome_is_refused():
    builder = TreeBuilder()
    builder.base()
    node = builder.trained(builder.running(builder.node()))
    with pytest.raises(JournalError, match="has an outcome already"):
        builder.emit("node_trained", node=node, outcome=builder.tree[node].outcome.to_json())


def test_a_node_without_parent_that_is_not_the_base_is_refused():
    builder = TreeBuilder()
    builder.base()
    proposal = builder.tree[builder.node()].proposal.to_json()
    with pytest.raises(JournalError, match="has no parent"):
        builder.emit("node_proposed", node="n002", index=2, proposal={**proposal, "parents": []})
    with pytest.raises(JournalError, match="unknown parent 'n009'"):
        builder.emit("node_proposed", node="n002", index=2, proposal={**proposal, "parents": ["n009"]})
    with pytest.raises(JournalError, match="does not follow 2 nodes"):
        builder.emit("node_proposed", node="n005", index=5, proposal=proposal)


def test_only_completed_valid_nodes_of_the_search_can_be_best():
    builder = TreeBuilder()
    builder.base(dev=0.99)
    good = builder.completed(builder.node(), 0.5)
    builder.completed(builder.node(), 0.5)
    builder.completed(builder.node(purpose=Purpose.CONFIRM), 0.8)
    invalid = builder.completed(builder.node(), 0.9)
    builder.emit("node_validity", node=invalid, validity=str(Validity.INVALID), reason="frozen files changed")
    builder.pruned(builder.node(), a_finding())
    assert builder.tree.best().id == good


def test_the_newest_promotion_that_was_not_superseded_counts():
    builder = TreeBuilder()
    builder.base()
    one, two = builder.completed(builder.node(), 0.5), builder.completed(builder.node(), 0.6)
    for node in (one, two):
        builder.emit("node_verdict", node=node, verdict=str(Verdict.PROMOTED), reason="passed", figures={})
    assert builder.tree.promoted().id == two
    builder.emit("node_verdict", node=two, verdict=str(Verdict.SUPERSEDED), reason="by n009", figures={})
    assert builder.tree.promoted().id == one
