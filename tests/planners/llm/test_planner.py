"""What a scripted model can make the planner do, branch by branch."""

import json

import pytest

from autotrainer.errors import PlannerError, PlannerWaitingError
from autotrainer.planners.llm.backend import CallError, Fault, Reply
from autotrainer.planners.llm.compile import MAX_OVERRIDES
from autotrainer.planners.llm.desk import VetResult
from autotrainer.planners.llm.prices import Price
from autotrainer.testing.scripted_desk import ScriptedDesk
from autotrainer.testing.scripted_model import change, go_on
from autotrainer.testing.skills import ScriptedSkill, scripted
from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.tree.proposal import Edge, Start

from .conftest import context_of

HOOK = '''"""Shaping."""
class Short:
    """Prefers short completions."""
    adds = {"short": 0.1}
    def components(self, inputs):
        import torch
        return {"short": torch.tensor([-len(ids) / 10 for ids in inputs.completion_ids_N])}
'''
USE = [{"point": "rewards", "ref": "hooks/short.py:Short"}]
EDIT = [{"path": "harness/hooks/short.py", "content": HOOK}]


def outcome(desk):
    return desk.events("llm_decision")[-1]


def test_a_decision_becomes_a_node_with_its_hypothesis_and_predictions(grown, planner_of):
    planner, desk, model = planner_of(
        go_on(
            changes=change(learning_rate=2e-4),
            hypothesis="the rate is too low",
            predictions=[{"metric": "reward", "direction": "up", "why": "faster"}],
        )
    )
    proposal = planner.propose(context_of(grown), "n003")
    assert (proposal.edge, proposal.start) == (Edge.TRANSITION, Start("weights", "n003", 60))
    assert proposal.recipe.stages[-1].knobs["learning_rate"] == 2e-4
    assert proposal.recipe.stages[-1].knobs["beta"] == 0.01
    assert (proposal.hypothesis, proposal.planner) == ("the rate is too low", "llm")
    assert [p.metric for p in proposal.predictions] == ["reward"]
    assert proposal.recipe.stages[-1].fork.optimizer == "reset"
    assert outcome(desk)["outcome"] == "accepted"
    assert outcome(desk)["overrides"] == 1
    transcript = json.loads((desk.transcripts / "00001.json").read_text())
    assert "the rate is too low" in transcript["answer"]
    assert transcript["request"]["messages"][1]["content"] == model.digests[0]


def test_a_decision_that_breaks_rules_comes_back_with_every_reason(grown, planner_of):
    planner, desk, model = planner_of(
        go_on(changes=change(learning_rate=3.0, bate=0.1), skills=["magic"]),
        go_on(changes=change(learning_rate=2e-4)),
    )
    assert planner.propose(context_of(grown), "n003").planner == "llm"
    sent = model.requests[1].messages[-1][1]
    for words in ("learning_rate = 3.0", "1e-08 to 0.1", "unknown knob 'bate'", "skill 'magic' is not known"):
        assert words in sent
    assert len(outcome(desk)["rejections"]) == 1


def test_after_two_repairs_the_rules_planner_decides_and_it_is_said(grown, planner_of):
    planner, desk, model = planner_of("I would train harder.")
    proposal = planner.propose(context_of(grown), "n003")
    assert proposal.planner == "rules"
    assert len(model.requests) == 3
    assert outcome(desk)["outcome"] == "fallback"
    assert "without a JSON object" in outcome(desk)["reason"]


@pytest.mark.parametrize(
    ("wrap", "valid"),
    [
        ("{}", True),
        ("```json\n{}\n```", True),
        ("Sure! Here it is:\n```\n{}\n```\nGood luck", True),
        ("<think>{{ no }}</think>{}", True),
        ("My decision is {} as I said", True),
        ("[{}]", True),
    ],
)
def test_fences_thoughts_and_words_around_a_decision_do_no_harm(grown, planner_of, wrap, valid):
    decision = json.dumps(go_on(changes=change(learning_rate=2e-4)))
    planner, _desk, model = planner_of(wrap.replace("{}", decision).replace("{{", "{").replace("}}", "}"))
    assert (planner.propose(context_of(grown), "n003").planner == "llm") is valid
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"edge": "draft", "start": "last"}, "edge draft starts from base"),
        ({"parent": "n099"}, "no node of the tree"),
        ({"edge": "repair"}, "no finding to repair"),
        ({"changes": change(num_generations=4)}, "only grows"),
        ({"changes": change(learning_rate=2e-4) * 2}, "changed twice"),
        (
            {
                "changes": change(
                    beta=0.1,
                    epsilon=0.3,
                    temperature=0.9,
                    weight_decay=0.1,
                    max_grad_norm=0.5,
                    entropy_coef=0.01,
                    epsilon_high=0.4,
                    warmup_steps=2,
                    num_iterations=2,
                )
            },
            f"at most {MAX_OVERRIDES} may be",
        ),
        ({"hooks": [{"point": "loss", "ref": "hooks/none.py:None_"}]}, "there is no harness/hooks/none.py"),
        ({"hooks": [{"point": "loss", "ref": "../x.py:Y"}]}, "hooks.0.ref"),
        ({"lr": 1}, "there is no such key"),
        ({"verdict": None}, "verdict = null"),
        ({"edits": [{"path": "harness/run.py", "content": "x = 1\n"}]}, "may not be edited"),
        ({"edits": [{"path": "harness/hooks/x.py", "search": "a", "replace": "b"}]}, "no such file"),
    ],
)
def test_what_a_decision_may_not_ask_for_is_named(grown, planner_of, parts, words):
    planner, _desk, model = planner_of(go_on(**parts), go_on(changes=change(learning_rate=2e-4)))
    assert planner.propose(context_of(grown), "n003").planner == "llm"
    assert words in model.requests[1].messages[-1][1]


def test_an_answer_that_was_cut_off_is_called_so(grown, planner_of):
    text = json.dumps({"changes": change(beta=0.02), **go_on()})
    planner, _, model = planner_of(text[:-30], go_on(changes=change(beta=0.02)))
    assert planner.propose(context_of(grown), "n003").planner == "llm"
    assert "was it cut off?" in model.requests[1].messages[-1][1]


def test_a_killed_node_is_not_gone_on_from_and_a_repair_starts_before_the_onset(planner_of):
    builder = TreeBuilder()
    builder.base()
    lost = builder.pruned(builder.node(), a_finding("collapse", onset=35), checkpoints=(20, 30, 40))
    planner, _desk, model = planner_of(
        go_on(edge="transition", changes=change(beta=0.02)), go_on(edge="repair", changes=change(beta=0.02))
    )
    proposal = planner.propose(context_of(builder), lost)
    assert (proposal.edge, proposal.start) == (Edge.REPAIR, Start("weights", lost, 30))
    assert "was killed" in model.requests[1].messages[-1][1]


def test_an_edge_that_is_left_out_is_the_one_that_fits(planner_of):
    builder = TreeBuilder()
    builder.base()
    lost = builder.pruned(builder.node(), a_finding("collapse", onset=35), checkpoints=(20, 30, 40))
    planner, _, _ = planner_of(go_on(changes=change(beta=0.02)))
    assert planner.propose(context_of(builder), "n000").edge is Edge.DRAFT
    other, _, _ = planner_of(go_on(parent="n000", edge="transition", start="last", changes=change(beta=0.03)))
    assert other.propose(context_of(builder), lost).edge is Edge.DRAFT
    assert planner.propose(context_of(builder), lost).edge is Edge.REPAIR


def test_a_skill_that_applies_brings_its_knobs(grown, planner_of):
    longer = scripted("longer", "truncation", ScriptedSkill(knobs={"max_completion_length": 12}))
    planner, _desk, _ = planner_of(go_on(skills=["longer"], changes=change(beta=0.02)))
    stage = planner.propose(context_of(grown, longer), "n003").recipe.stages[-1]
    assert (stage.knobs["max_completion_length"], stage.knobs["beta"]) == (12, 0.02)


def test_the_suggestion_is_taken_and_overridden(grown, planner_of):
    planner, _desk, model = planner_of(go_on(use_suggestion=True, changes=change(beta=0.02)))
    stage = planner.propose(context_of(grown), "n003").recipe.stages[-1]
    assert "Suggestion of the numeric sampler" in model.digests[0]
    assert stage.knobs["beta"] == 0.02
    assert (
        stage.knobs["learning_rate"] != grown.tree["n003"].proposal.recipe.stages[-1].knobs["learning_rate"]
    )


def test_an_edit_is_vetted_and_becomes_the_patch_of_the_node(grown, planner_of):
    planner, desk, _ = planner_of(go_on(hooks=USE, edits=EDIT))
    proposal = planner.propose(context_of(grown), "n003")
    assert proposal.patch.startswith("diff --git a/harness/hooks/short.py b/harness/hooks/short.py\nnew file")
    assert proposal.recipe.stages[-1].hooks[-1].ref == "hooks/short.py:Short"
    assert outcome(desk)["gates"] == ["scripted"]


def test_a_rejected_edit_goes_back_once_and_is_then_dropped_and_recorded(grown, planner_of, tmp_path):
    refused = VetResult(False, "smoke run", "NameError: x", ("smoke run",))
    desk = ScriptedDesk(tmp_path / "s", verdicts=[refused, refused])
    planner, _, model = planner_of(go_on(hooks=USE, edits=EDIT, changes=change(beta=0.02)), desk=desk)
    proposal = planner.propose(context_of(grown), "n003")
    assert (len(model.requests), proposal.patch, proposal.recipe.stages[-1].hooks) == (2, None, ())
    assert proposal.recipe.stages[-1].knobs["beta"] == 0.02
    assert "NameError: x" in model.requests[1].messages[-1][1]
    assert outcome(desk)["outcome"] == "edits_dropped"


def test_a_stop_is_honoured_only_in_the_second_half_of_the_search(grown, planner_of, tmp_path):
    stop = {"verdict": "stop", "hypothesis": "it is as good as it gets"}
    planner, desk, _ = planner_of(stop)
    assert planner.propose(context_of(grown), "n003").planner == "rules"
    assert outcome(desk)["outcome"] == "stop_refused"
    planner, desk, model = planner_of(stop, desk=ScriptedDesk(tmp_path / "late", nodes_left=0))
    for _ in range(3):
        with pytest.raises(PlannerError, match="as good as it gets"):
            planner.propose(context_of(grown), "n003")
    assert len(model.requests) == 1, "the same question is not asked again at every tick"


def test_equal_requests_are_answered_from_the_cache(grown, planner_of, tmp_path):
    first, desk, _model = planner_of(go_on(changes=change(beta=0.02)), price=Price(1e-6, 1e-6))
    one = first.propose(context_of(grown), "n003")
    other = ScriptedDesk(tmp_path / "again")
    second, _, silent = planner_of(CallError(Fault.SERVER, "must not be called"), desk=other)
    (other.cache_dir).parent.mkdir(parents=True)
    other.cache_dir.symlink_to(desk.cache_dir)
    assert second.propose(context_of(grown), "n003") == one
    assert silent.requests == []
    assert [(row["cached"], row["usd"]) for row in other.events("llm_settled")] == [(True, 0.0)]


def test_three_equal_decisions_force_another_policy(planner_of):
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4)
    parent, rate = "n001", 1e-4
    planner, desk, _model = planner_of(lambda request: go_on(changes=change(learning_rate=rate)))
    proposal = None
    for _ in range(3):
        rate *= 1.1
        proposal = planner.propose(context_of(builder), parent)
        node = builder.propose(proposal)
        parent = builder.completed(node, 0.4 + 0.01 * len(builder.tree))
    assert [data["outcome"] for data in desk.events("llm_decision")] == ["accepted", "accepted", "forced"]
    assert proposal is not None
    assert proposal.planner == "rules"


def test_a_cycle_of_two_forces_another_policy(planner_of):
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4)
    parent = "n001"
    moves = iter([{"learning_rate": 2e-4}, {"beta": 0.01}, {"learning_rate": 4e-4}, {"beta": 0.05}])
    planner, desk, _ = planner_of(lambda request: go_on(changes=change(**next(moves))))
    for _ in range(4):
        node = builder.propose(planner.propose(context_of(builder), parent))
        parent = builder.completed(node, 0.4 + 0.01 * len(builder.tree))
    assert desk.events("llm_decision")[-1]["outcome"] == "forced"


def test_failures_in_a_row_first_subtract_and_then_roll_back(planner_of):
    builder = TreeBuilder()
    builder.base()
    best = builder.careful_seeds(0.5)[0]
    planner, desk, model = planner_of(go_on(changes=change(beta=0.033)))

    def fail(times):
        node = best
        for _ in range(times):
            node = builder.node(best, knobs={"beta": 0.001 * len(builder.tree)})
            proposal = builder.tree[node].proposal
            object.__setattr__(proposal, "planner", "llm")
            builder.completed(node, 0.3)
        return node

    parent = fail(3)
    planner.propose(context_of(builder), parent)
    assert "MODE subtract" in model.digests[-1]
    assert any("knobs only go back" in words for words in desk.events("llm_decision")[-1]["rejections"])
    parent = fail(2)
    proposal = planner.propose(context_of(builder), parent)
    assert "MODE roll back" in model.digests[-1]
    assert proposal.parents == (best,)


@pytest.mark.parametrize(("agreed", "planner_name"), [(True, "llm"), (False, "rules")])
def test_with_approve_all_a_decision_waits_for_a_person(grown, planner_of, agreed, planner_name):
    planner, desk, model = planner_of(go_on(changes=change(beta=0.02)), approve="all")
    for _ in range(3):
        with pytest.raises(PlannerWaitingError):
            planner.propose(context_of(grown), "n003")
    desk.approvals["d004"] = (agreed, "too bold")
    assert planner.propose(context_of(grown), "n003").planner == planner_name
    assert len(model.requests) == 1


def test_with_approve_edits_only_edits_wait(grown, planner_of, tmp_path):
    planner, _desk, _ = planner_of(go_on(changes=change(beta=0.02)), approve="edits")
    assert planner.propose(context_of(grown), "n003").planner == "llm"
    other = ScriptedDesk(tmp_path / "other")
    planner, _, _ = planner_of(go_on(hooks=USE, edits=EDIT), approve="edits", desk=other)
    with pytest.raises(PlannerWaitingError):
        planner.propose(context_of(grown), "n003")


def test_a_hint_of_a_person_is_in_the_digest(grown, planner_of, tmp_path):
    desk = ScriptedDesk(tmp_path / "s", said=["try a lower temperature"])
    planner, _, model = planner_of(go_on(changes=change(beta=0.02)), desk=desk)
    planner.propose(context_of(grown), "n003")
    assert "- try a lower temperature" in model.digests[0]


def test_roles_may_have_different_models(grown, planner_of):
    planner, _desk, model = planner_of("nonsense", go_on(changes=change(beta=0.02)), coder="fake/two")
    planner.propose(context_of(grown), "n003")
    assert [request.model for request in model.requests] == ["fake/one", "fake/two"]


def test_an_interrupted_call_neither_decides_nor_falls_back(grown, planner_of):
    planner, desk, _ = planner_of(CallError(Fault.INTERRUPTED, "the study is to stop"))
    with pytest.raises(PlannerWaitingError):
        planner.propose(context_of(grown), "n003")
    assert desk.events("llm_decision") == []


def test_predictions_are_checked_and_the_calibration_is_told(planner_of):
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4)
    rows = {"n001": [{"step": s, "reward": 0.4} for s in range(1, 9)]}
    planner, desk, model = planner_of(
        go_on(
            changes=change(beta=0.02),
            predictions=[{"metric": "reward", "direction": "up"}, {"metric": "luck", "direction": "up"}],
        ),
        go_on(changes=change(temperature=0.9)),
    )
    node = builder.propose(planner.propose(context_of(builder, rows=rows), "n001"))
    assert desk.events("llm_decision")[0]["dropped_predictions"] == ["luck"]
    builder.completed(node, 0.45)
    rows[node] = [{"step": s, "reward": 0.6} for s in range(1, 9)]
    planner.propose(context_of(builder, rows=rows), node)
    assert "1 of 1 predicted metric movements came true" in model.digests[-1]


def test_an_answer_without_token_counts_is_charged_at_its_cap(grown, planner_of):
    text = json.dumps(go_on(changes=change(beta=0.02)))
    planner, desk, _ = planner_of(Reply(text), price=Price(1e-6, 1e-5))
    planner.propose(context_of(grown), "n003")
    (reserved,), (settled,) = desk.events("llm_reserved"), desk.events("llm_settled")
    assert settled["usd"] == reserved["usd"] > 4000 * 1e-5
