import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from autotrainer.errors import ConfigError
from autotrainer.library.context import EvidenceContext, band_of, weight
from autotrainer.library.store import PRIOR_SD, EvidenceRow, EvidenceStore
from autotrainer.library.trials import LOST, trials
from autotrainer.testing.trees import TreeBuilder

HERE = EvidenceContext("math", "tiny", "full", "healthy")


def a_row(effect: float = 0.04, **changes) -> EvidenceRow:
    values = {
        "skill": "lite-ppo",
        "task": "math",
        "band": "tiny",
        "weights": "full",
        "finding": "healthy",
        "effect": effect,
        "low": effect - 1.96 * 0.03,
        "high": effect + 1.96 * 0.03,
        "seeds": 1,
        "device_s": 10.0,
        "study": "s",
        "node": "n003",
        "time": 0.0,
    }
    return EvidenceRow(**{**values, **changes})


@pytest.fixture
def store(tmp_path) -> EvidenceStore:
    return EvidenceStore(tmp_path / "deep" / "evidence.sqlite", clock=lambda: 0.0)


def test_nothing_known_is_the_prior(store):
    belief = store.belief("lite-ppo", HERE)
    assert (belief.mean, belief.deviation, belief.rows) == (0.0, pytest.approx(PRIOR_SD), 0)


def test_a_belief_is_the_normal_posterior(store):
    store.add([a_row(0.04)])
    belief = store.belief("lite-ppo", HERE)
    precision = 1 / PRIOR_SD**2 + 1 / 0.03**2
    assert belief.mean == pytest.approx(0.04 / 0.03**2 / precision)
    assert belief.deviation == pytest.approx(precision**-0.5)


def test_contradicting_trials_cancel_and_agreeing_ones_add_up(store):
    store.add([a_row(0.04, study="a"), a_row(-0.04, study="b")])
    assert store.belief("lite-ppo", HERE).mean == pytest.approx(0.0)
    store.add([a_row(0.04, study="b")])
    assert store.belief("lite-ppo", HERE).mean > 0.025


def test_old_trials_count_less(tmp_path):
    path = tmp_path / "evidence.sqlite"
    EvidenceStore(path).add([a_row(0.04)])
    young, old = (
        EvidenceStore(path, clock=lambda at=at: at).belief("lite-ppo", HERE).mean for at in (0.0, 3e8)
    )
    assert 0 < old < 0.1 * young


def test_what_was_seen_below_a_hundred_million_parameters_says_nothing_above(store):
    store.add([a_row(0.2, study=str(i)) for i in range(50)])
    for band in ("small", "medium", "large", "huge"):
        asked = EvidenceContext("math", band, "full", "healthy")
        assert store.belief("lite-ppo", asked).mean == 0.0
        assert store.beliefs(["lite-ppo"], asked) == {}
    assert (band_of(99e6), band_of(100e6)) == ("tiny", "small")


def test_nearer_places_count_more():
    other = EvidenceContext("code", "tiny", "full", "healthy")
    lora = EvidenceContext("math", "tiny", "lora", "healthy")
    assert 1.0 == weight(HERE, HERE) > weight(other, HERE) > weight(lora, HERE) > 0


def test_an_export_is_taken_elsewhere_and_taking_it_twice_changes_nothing(store, tmp_path):
    store.add([a_row(0.04), a_row(0.01, node="n004")])
    other = EvidenceStore(tmp_path / "other.sqlite")
    text = json.dumps(store.to_json())
    assert other.take_json(text) == 2
    other.take_json(text)
    assert other.rows() == store.rows()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema_version": 2, "rows": []}', '{"schema_version": 1, "rows": [{}]}']
)
def test_what_is_no_export_is_refused(store, text):
    with pytest.raises(ConfigError):
        store.take_json(text)


def test_writers_at_the_same_time_lose_nothing(store):
    def write(study: int) -> None:
        EvidenceStore(store._path).add([a_row(0.01, study=str(study), node=str(n)) for n in range(5)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(16)))
    assert len(store.rows()) == 80


def a_search() -> TreeBuilder:
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.40)
    builder.completed(builder.node("n001"), 0.44)
    builder.completed(builder.node("n001"), 0.46)
    return builder


def rows(builder: TreeBuilder) -> list[EvidenceRow]:
    return list(trials(builder.tree, study="s", task="math", band="tiny", weights="full", time=0.0))


def test_the_effect_of_a_skill_is_its_gain_less_that_of_equally_deep_nodes_without_one():
    builder = a_search()
    builder.completed(builder.node("n001", skills=["lite-ppo"]), 0.50)
    (row,) = rows(builder)
    assert (row.skill, row.finding) == ("lite-ppo", "healthy")
    assert row.effect == pytest.approx(0.10 - 0.05)
    assert row.low < row.effect < row.high


def test_without_a_control_there_is_no_evidence():
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.40)
    builder.completed(builder.node("n001", skills=["lite-ppo"]), 0.50)
    assert rows(builder) == []


def test_a_stopped_run_counts_against_its_skill():
    from autotrainer.testing.findings import EXAMPLES

    builder = a_search()
    builder.pruned(builder.node("n001", skills=["lr-raise"]), EXAMPLES["collapse"][0])
    assert [row.effect for row in rows(builder)] == [LOST]
