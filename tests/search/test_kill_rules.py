from dataclasses import replace

from autotrainer.search.kill_rules import FatalFinding
from autotrainer.testing.trees import a_finding


def test_only_a_finding_that_kills_stops_a_node():
    assert FatalFinding().reason([a_finding(kills=False)]) is None
    assert FatalFinding().reason([]) is None


def test_the_earliest_fatal_finding_is_the_reason():
    late, early = a_finding("collapse", onset=20), a_finding("nan", onset=5)
    assert FatalFinding().reason([late, early, a_finding("truncation", onset=1, kills=False)]) == early


def test_of_two_at_once_the_surer_one_is_the_reason():
    sure, unsure = a_finding("collapse"), replace(a_finding("drift"), confidence=0.5)
    assert FatalFinding().reason([unsure, sure]) == sure
