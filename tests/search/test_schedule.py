import pytest

from autotrainer.budget.grammar import parse_budget
from autotrainer.budget.ledger import Ledger
from autotrainer.search.plan import JobCost
from autotrainer.search.planning import make_plan
from autotrainer.search.schedule import (
    Advance,
    Propose,
    Wait,
    finalists,
    next_move,
    proposals_for_confirmation,
)
from autotrainer.study.config import SearchSettings
from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.tree.event import Event
from autotrainer.tree.proposal import Edge, Proposal, Purpose, Start
from autotrainer.tree.state import NodeState
from autotrainer.tree.tree import Tree

DEMO = JobCost(startup_s=7.0, step_s=0.16, eval_s=3.0)


def a_plan(budget="2xCPUx6m", **settings):
    return make_plan(parse_budget(budget), DEMO, SearchSettings(**settings), model_name="tiny")


def a_ledger(used=0.0, granted=720.0, deadline=360.0):
    events = [
        Event(0, 0.0, "study_started", {"granted": granted, "deadline": deadline}),
        Event(1, 0.0, "charge", {"what": "by hand", "device_s": used}),
    ]
    return Ledger.replay(events)


def move(builder, phase, *, plan=None, ledger=None, now=0.0, **settings):
    return next_move(
        builder.tree, ledger or a_ledger(), plan or a_plan(**settings), phase, SearchSettings(**settings), now
    )


def studied(*devs, careful=(0.40, 0.42)):
    builder = TreeBuilder()
    builder.base(dev=0.3)
    builder.careful_seeds(*careful)
    return builder, [
        builder.completed(builder.node(knobs={"beta": (place + 1) / 100}), dev)
        for place, dev in enumerate(devs)
    ]


def test_careful_seeds_come_first_and_the_search_does_not_wait_for_them():
    builder = TreeBuilder()
    builder.base()
    assert move(builder, "careful") == Propose(Purpose.CAREFUL)
    builder.running(builder.node(purpose=Purpose.CAREFUL))
    assert move(builder, "careful") == Propose(Purpose.CAREFUL)
    builder.node(purpose=Purpose.CAREFUL)
    assert move(builder, "careful") == Advance("search", "2 careful seeds are proposed")


def test_a_lost_careful_seed_ends_the_careful_phase_at_once():
    builder = TreeBuilder()
    builder.base()
    builder.pruned(builder.node(purpose=Purpose.CAREFUL), a_finding())
    step = move(builder, "careful")
    assert step.phase == "search"
    assert "n001 was pruned" in step.reason


def test_the_search_goes_on_while_budget_and_time_last():
    builder, _ = studied(0.5)
    assert move(builder, "search") == Propose(Purpose.SEARCH)


def test_device_seconds_for_the_confirmation_are_not_spent_on_the_search():
    builder, (best,) = studied(0.5)
    plan = a_plan()
    spare = plan.confirm_reserve_s + plan.job_s + DEMO.eval_s
    assert move(builder, "search", ledger=a_ledger(used=720 - spare - 1)) == Propose(Purpose.SEARCH)
    step = move(builder, "search", ledger=a_ledger(used=720 - spare + 1))
    assert (step.phase, step.confirm_seeds) == ("confirm", 3)
    assert best in step.reason


def test_time_for_the_confirmation_is_not_spent_on_the_search():
    builder, _ = studied(0.5)
    assert isinstance(move(builder, "search", now=100.0), Propose)
    assert move(builder, "search", now=200.0).phase == "confirm"


def test_what_runs_is_waited_for_before_the_confirmation():
    builder, _ = studied(0.5)
    builder.running(builder.node())
    assert move(builder, "search", now=200.0) == Wait()


def test_the_users_limit_of_nodes_counts_careful_and_search_nodes():
    builder, _ = studied(0.5)
    assert isinstance(move(builder, "search", max_nodes=4), Propose)
    assert "3 of 3 nodes are spent" in move(builder, "search", max_nodes=3).reason


def test_a_reserve_that_was_eaten_into_costs_confirmation_seeds_and_is_said():
    builder, _ = studied(0.5)
    step = move(builder, "search", ledger=a_ledger(used=720 - 120))
    assert (step.phase, step.confirm_seeds) == ("confirm", 2)
    assert "2 fresh seeds instead of 3" in step.reason
    assert "may not end" not in step.reason
    assert "may not end before the deadline" in move(builder, "search", ledger=a_ledger(used=719)).reason


def test_a_search_that_found_nothing_better_is_not_confirmed():
    builder, _ = studied(0.405, 0.2)
    step = move(builder, "search", max_nodes=4)
    assert step.phase == "test"
    assert "search did not pay: no search node is above the careful recipe's dev score (0.410)" in step.reason


def test_where_the_careful_recipe_was_lost_a_finalist_has_to_be_above_the_base():
    builder = TreeBuilder()
    builder.base(dev=0.3)
    builder.pruned(builder.node(purpose=Purpose.CAREFUL), a_finding())
    below, above = (builder.completed(builder.node(knobs={"beta": dev}), dev) for dev in (0.25, 0.35))
    assert [node.id for node in finalists(builder.tree, a_plan(finalists=2))] == [above]
    assert below not in move(builder, "search", now=300.0).reason


def test_without_a_search_the_study_goes_from_careful_to_test():
    plan = a_plan("2xCPUx2m")
    builder = TreeBuilder()
    builder.base()
    assert plan.mode == "careful"
    for _ in range(3):
        assert move(builder, "careful", plan=plan) == Propose(Purpose.CAREFUL)
        node = builder.node(purpose=Purpose.CAREFUL)
        if node != "n003":
            builder.completed(node, 0.4)
    assert move(builder, "careful", plan=plan) == Wait()
    builder.completed("n003", 0.4)
    assert move(builder, "careful", plan=plan).phase == "test"


def test_a_confirmation_ends_when_all_its_runs_did():
    builder, _ = studied(0.5)
    nodes = [
        builder.propose(p) for p in proposals_for_confirmation(builder.tree, a_plan(), builder.careful, 0)
    ]
    assert move(builder, "confirm") == Wait()
    for node in nodes[:-1]:
        builder.completed(node, 0.5, 0.5)
    builder.emit("node_state", node=nodes[-1], state="cancelled", reason="deadline")
    assert move(builder, "confirm") == Advance("test", "5 of 6 confirmation runs are scored")


@pytest.mark.parametrize("phase", ["test", "done"])
def test_nothing_is_proposed_after_the_confirmation(phase):
    assert move(studied(0.5)[0], phase) == Wait()


def test_an_unknown_phase_is_refused():
    with pytest.raises(ValueError, match="unknown phase 'party'"):
        move(studied(0.5)[0], "party")


def test_the_finalists_whole_path_is_confirmed_against_equally_long_careful_runs():
    builder, (parent,) = studied(0.5)
    best = builder.completed(builder.node(parent, knobs={"temperature": 0.9}, skills=["cooler"]), 0.6)
    proposals = proposals_for_confirmation(builder.tree, a_plan(), builder.careful, 0)
    confirm = [p for p in proposals if p.purpose is Purpose.CONFIRM]
    control = [p for p in proposals if p.purpose is Purpose.CONTROL]
    assert (len(confirm), len(control)) == (3, 3)
    for proposal in confirm:
        assert (proposal.edge, proposal.parents, proposal.start) == (Edge.REPLICATE, ("n000", best), Start())
        assert proposal.recipe.stages == builder.tree.path_stages(best)
        assert proposal.skills == ("cooler",)
    assert {p.recipe.steps for p in proposals} == {120}
    assert {p.recipe.stages[0].knobs == builder.careful.stages[0].knobs for p in control} == {True}
    seeds = {p.recipe.seed for p in proposals} | {node.proposal.recipe.seed for node in builder.tree.nodes}
    assert len(seeds) == 6 + len(builder.tree)


def test_a_confirmation_that_was_cut_off_goes_on_where_it_was():
    builder, _ = studied(0.5)
    asked = proposals_for_confirmation(builder.tree, a_plan(), builder.careful, 7, seeds=2)
    for proposal in asked[:3]:
        builder.propose(proposal)
    again = TreeBuilder(tree=Tree.replay(builder.events))
    builder.completed("n004", 0.9, 0.9)
    assert proposals_for_confirmation(again.tree, a_plan(), again.careful, 7, seeds=2) == asked
    assert proposals_for_confirmation(builder.tree, a_plan(), builder.careful, 7, seeds=2) == asked
    assert [p.purpose for p in asked] == [Purpose.CONFIRM, Purpose.CONTROL] * 2


def test_two_finalists_share_their_controls():
    builder, nodes = studied(0.5, 0.6, 0.45)
    asked = proposals_for_confirmation(builder.tree, a_plan("2xCPUx30m", finalists=2), builder.careful, 0)
    assert [p.parents[1] for p in asked if p.purpose is Purpose.CONFIRM] == [nodes[1], nodes[0]] * 3
    assert sum(p.purpose is Purpose.CONTROL for p in asked) == 3


def test_nothing_is_confirmed_while_the_search_runs():
    builder, _ = studied(0.5)
    builder.running(builder.node())
    assert proposals_for_confirmation(builder.tree, a_plan(), builder.careful, 0) == []


def test_a_simulated_study_ends_before_its_deadline():
    """Runs cost what the plan believes; slots are filled as the loop does it."""
    builder, plan, ledger, now, phase, ends = TreeBuilder(), a_plan(), a_ledger(), 0.0, "careful", {}
    waiting: list[Proposal] = []
    builder.base()
    for _ in range(500):
        step = move(builder, phase, plan=plan, ledger=ledger, now=now)
        if isinstance(step, Advance):
            phase = step.phase
            if phase == "confirm":
                waiting = proposals_for_confirmation(
                    builder.tree, plan, builder.careful, 0, seeds=step.confirm_seeds
                )
            elif phase == "test":
                break
        if phase == "confirm":
            while waiting and len(builder.tree.active) < plan.slots:
                _launch(builder, builder.propose(waiting.pop(0)), ledger, ends, now)
        elif isinstance(step, Propose):
            knobs = {} if step.purpose is Purpose.CAREFUL else {"beta": len(builder.tree) / 1000}
            parent = "n000" if len(builder.tree) < 6 else builder.tree.best().id
            parent = parent if builder.tree.depth(parent) < plan.max_depth else "n000"
            _launch(builder, builder.node(parent, purpose=step.purpose, knobs=knobs), ledger, ends, now)
            if len(builder.tree.active) < plan.slots:
                continue
        if builder.tree.active and (len(builder.tree.active) >= plan.slots or not isinstance(step, Propose)):
            node = min((node.id for node in builder.tree.active), key=ends.__getitem__)
            now = max(now, ends[node])
            _end(builder, node, ledger)
    assert phase == "test"
    assert now + 7 * DEMO.eval_s <= 360
    assert now >= 0.6 * 360
    assert len(builder.tree.with_purpose(Purpose.CAREFUL, Purpose.SEARCH)) >= 8
    assert len(builder.tree.with_purpose(Purpose.CONFIRM)) == 3
    assert all(node.state is NodeState.COMPLETED for node in builder.tree.nodes)


def _launch(builder, node, ledger, ends, now):
    builder.running(node)
    seconds = DEMO.job_s(builder.tree[node].proposal.recipe.steps)
    evaluations = 2 if builder.tree[node].proposal.purpose in (Purpose.CONFIRM, Purpose.CONTROL) else 1
    ledger.apply(Event(0, now, "job_submitted", {"job_id": f"{node}.1", "device_s": seconds}))
    ends[node] = now + seconds + evaluations * DEMO.eval_s + 0.5


def _end(builder, node, ledger):
    seconds = DEMO.job_s(builder.tree[node].proposal.recipe.steps)
    ledger.apply(
        Event(0, 0.0, "job_settled", {"job_id": f"{node}.1", "device_s": seconds, "status": "completed"})
    )
    ledger.apply(Event(0, 0.0, "charge", {"what": "evaluation", "device_s": DEMO.eval_s}))
    depth = builder.tree.depth(node)
    builder.trained(node)
    builder.emit("node_state", node=node, state="evaluating", reason="")
    builder._score(node, 0.4 + 0.05 * depth + 0.001 * (len(node) % 7), 0.4)
