import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrainer.budget.ledger import Ledger
from autotrainer.errors import BudgetExceededError, JournalError
from autotrainer.tree.event import Event


def event(kind, **data):
    return Event(0, 0.0, kind, data)


def started(granted=100.0, deadline=60.0):
    ledger = Ledger()
    ledger.apply(event("study_started", granted=granted, deadline=deadline))
    return ledger


seconds = st.floats(0, 200, allow_nan=False)
moves = st.lists(
    st.tuples(st.sampled_from(["submit", "settle", "again", "score", "charge"]), st.integers(0, 5), seconds),
    max_size=40,
)


@given(moves)
def test_the_ledger_is_never_negative_and_adds_up(actions):
    ledger, events, leased, settled, extra = started(), [], {}, {}, 0.0
    for kind, number, cost in actions:
        job = f"n{number:03d}.1"
        if kind == "submit" and job not in leased and job not in settled:
            leased[job] = cost
            events.append(event("job_submitted", node="n", attempt=1, job_id=job, device_s=cost))
        elif kind in ("settle", "again") and (job in leased or job in settled):
            leased.pop(job, None)
            settled.setdefault(job, cost)
            events.append(event("job_settled", job_id=job, node="n", device_s=cost, status="completed"))
        elif kind in ("score", "charge"):
            extra += cost
            events.append(event("node_scored" if kind == "score" else "charge", what="x", device_s=cost))
        else:
            continue
        ledger.apply(events[-1])
        assert ledger.remaining >= 0
        assert ledger.used == pytest.approx(sum(settled.values()) + extra)
        assert ledger.reserved == pytest.approx(sum(leased.values()))
        assert ledger.settled_jobs == settled
    replayed = Ledger.replay([event("study_started", granted=100.0, deadline=60.0), *events])
    assert (replayed.used, replayed.reserved, replayed.remaining) == (
        ledger.used,
        ledger.reserved,
        ledger.remaining,
    )


def test_settling_twice_charges_once():
    ledger = started()
    ledger.apply(event("job_submitted", node="n001", attempt=1, job_id="n001.1", device_s=20.0))
    for _ in range(2):
        ledger.apply(event("job_settled", job_id="n001.1", node="n001", device_s=15.0, status="completed"))
    assert (ledger.used, ledger.reserved, ledger.remaining) == (15.0, 0.0, 85.0)


def test_a_job_cannot_be_submitted_twice():
    ledger = started()
    ledger.apply(event("job_submitted", node="n001", attempt=1, job_id="n001.1", device_s=20.0))
    with pytest.raises(JournalError, match=r"n001\.1 was submitted twice"):
        ledger.apply(event("job_submitted", node="n001", attempt=1, job_id="n001.1", device_s=20.0))


def test_a_reservation_that_does_not_fit_says_what_is_left():
    ledger = started()
    ledger.apply(event("job_submitted", node="n001", attempt=1, job_id="n001.1", device_s=70.0))
    ledger.check("n002.1", 30.0)
    with pytest.raises(BudgetExceededError, match=r"n002\.1 needs 31 device-seconds; 30 of 100 are left"):
        ledger.check("n002.1", 31.0)


def test_a_pause_moves_the_deadline_and_not_the_grant():
    ledger = started()
    ledger.apply(event("study_resumed", reason="", deadline=90.0))
    assert (ledger.deadline, ledger.granted) == (90.0, 100.0)
