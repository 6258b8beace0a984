"""In whatever order jobs are reserved, launched and settled, reservations never exceed the grant."""

from hypothesis import given, settings
from hypothesis import strategies as st

from autotrainer.budget.ledger import Ledger
from autotrainer.errors import BudgetExceededError
from autotrainer.tree.event import Event

MOVES = st.lists(st.tuples(st.integers(0, 5), st.floats(0.0, 60.0), st.booleans()), max_size=60)


@settings(max_examples=200, deadline=None)
@given(MOVES, st.floats(10.0, 200.0))
def test_the_ledger_never_exceeds_the_grant_under_any_interleaving(moves, grant):
    events = [Event(0, 0.0, "study_started", {"granted": grant, "deadline": 1e9})]
    ledger, open_jobs, number = Ledger.replay(events), {}, 0
    for which, amount, settle_first in moves:
        if open_jobs and settle_first:
            job = sorted(open_jobs)[which % len(open_jobs)]
            data = {"job_id": job, "node": "n001", "device_s": open_jobs.pop(job), "status": "completed"}
            for _ in range(2):  # settling again changes nothing
                events.append(Event(len(events), 0.0, "job_settled", data))
                ledger.apply(events[-1])
        number += 1
        try:
            ledger.check(f"j.{number}", amount)
        except BudgetExceededError:
            assert amount > ledger.remaining
            continue
        data = {"job_id": f"j.{number}", "node": "n001", "attempt": 1, "device_s": amount}
        events.append(Event(len(events), 0.0, "job_submitted", data))
        ledger.apply(events[-1])
        open_jobs[f"j.{number}"] = amount * 0.9
        assert ledger.used + ledger.reserved <= grant * (1 + 1e-9)
    again = Ledger.replay(events)
    assert (again.used, again.reserved, again.remaining) == (ledger.used, ledger.reserved, ledger.remaining)
