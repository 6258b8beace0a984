import pytest

from autotrainer.library.evidence import SkillEvidence, evidence
from autotrainer.testing.trees import TreeBuilder, a_finding


def test_the_evidence_of_a_skill_is_its_mean_gain_over_the_nearest_scored_ancestor():
    built = TreeBuilder()
    built.base(dev=0.3)
    killed = built.pruned(built.node(), a_finding())
    repaired = built.completed(built.node(killed, skills=("lr-backoff",)), 0.5)
    built.completed(built.node(repaired, skills=("lr-backoff", "lite-ppo")), 0.4)
    built.pruned(built.node(repaired, skills=("lr-raise",)), a_finding())
    found = evidence(built.tree)
    assert set(found) == {"lr-backoff", "lite-ppo"}
    assert found["lr-backoff"] == SkillEvidence(2, pytest.approx(0.05))
    assert found["lite-ppo"] == SkillEvidence(1, pytest.approx(-0.1))


def test_a_study_without_completed_children_has_no_evidence():
    built = TreeBuilder()
    built.base()
    assert evidence(built.tree) == {}
