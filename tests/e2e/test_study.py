"""Whole studies of the tiny model: real jobs, real evaluations."""

import json
from pathlib import Path

import jsonschema
import pytest

from autotrainer.study.replay import run_node
from autotrainer.study.study import run_study
from autotrainer.study.view import StudyView
from autotrainer.tree.proposal import Edge, Purpose
from autotrainer.tree.state import NodeState

SCHEMA = Path(__file__).parents[2] / "docs" / "show.schema.json"

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]


def proposals(view: StudyView) -> list[dict]:
    return [event.data["proposal"] for event in view.events if event.kind == "node_proposed"]


def test_with_one_slot_and_one_seed_two_studies_make_equal_proposals(two_equal_studies):
    first, second = two_equal_studies
    assert len(first.tree) >= 5
    assert proposals(first) == proposals(second)


def test_a_study_ends_with_scores_a_confirmation_and_a_verdict(two_equal_studies):
    study = two_equal_studies[0]
    assert study.state == "finished"
    assert all(node.state is NodeState.COMPLETED for node in study.tree.nodes)
    base = study.tree.nodes[0]
    assert {"dev", "holdout", "test"} <= base.scores.keys()
    forks = [node for node in study.tree.nodes if node.proposal.start.mode == "weights"]
    assert forks, "no node started from another node's checkpoint"
    confirmed = study.tree.with_purpose(Purpose.CONFIRM)
    assert all(node.proposal.start.mode == "base" for node in confirmed)
    seeds = [node.proposal.recipe.seed for node in study.tree.nodes if node.proposal.edge is not Edge.BASE]
    assert len(set(seeds)) == len(seeds)


def test_the_ledger_of_a_study_is_the_sum_of_what_its_jobs_and_evaluations_took(two_equal_studies):
    study = two_equal_studies[0]
    costs = [study.node_cost(node.id) for node in study.tree.nodes]
    assert study.ledger.used == pytest.approx(sum(c["train_device_s"] + c["eval_device_s"] for c in costs))
    assert 0 < study.ledger.used <= study.ledger.granted
    assert study.ledger.reserved == 0


def test_what_show_prints_of_a_real_study_is_valid(two_equal_studies):
    shown = json.loads(json.dumps(two_equal_studies[0].to_json()))
    jsonschema.validate(shown, json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_report_and_tree_are_written(two_equal_studies):
    paths = two_equal_studies[0].paths
    assert "</html>" in paths.report.read_text(encoding="utf-8")
    assert (paths.root.parent / "mlflow.db").is_file()


def test_a_recorded_node_that_forked_is_repeated_step_for_step(two_equal_studies, tmp_path):
    study = two_equal_studies[0]
    fork = next(node for node in study.tree.nodes if node.proposal.start.mode == "weights")
    figures = run_node(study.paths.root, fork.id, tmp_path / "again")
    assert figures["steps_compared"] == fork.last_step
    assert figures["largest_difference"] == 0.0
    assert figures["equal"]


def test_a_bad_learning_rate_is_diagnosed_killed_early_and_answered(begin):
    root = begin(
        "bad",
        search={"mode": "tree", "steps": 60, "max_nodes": 2, "careful_seeds": 2, "confirm_seeds": 2},
        recipe={"learning_rate": 1e-3},
    )
    view = run_study(root, should_stop=lambda: len(StudyView.read(root).tree) >= 3)
    careful, answer = view.tree["n001"], view.tree["n002"]
    assert careful.state is NodeState.PRUNED
    assert careful.outcome.steps <= 40
    collapse = next(finding for finding in careful.findings if finding.kind == "collapse")
    assert "collapse" in answer.proposal.treats
    assert answer.proposal.finding_node == "n001"
    assert answer.proposal.skills == ("lr-backoff",)
    assert answer.proposal.recipe.stages[-1].knobs["learning_rate"] < 1e-3
    assert collapse.evidence


def test_nothing_is_killed_with_a_good_learning_rate(begin):
    root = begin("good", search={"mode": "careful", "steps": 60, "careful_seeds": 2})
    view = run_study(root)
    assert [event.kind for event in view.events].count("kill_requested") == 0
    assert {node.state for node in view.tree.nodes} == {NodeState.COMPLETED}
    assert not [
        finding for node in view.tree.nodes for finding in node.findings if finding.kind == "collapse"
    ]
