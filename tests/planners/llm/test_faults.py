"""Nothing an endpoint does can stop the study or spend more than granted: every fault, through litellm."""

import json
import time
from typing import Any

import pytest

from autotrainer.errors import ConfigError
from autotrainer.planners.llm.backend import CallError, Fault, Reply, Request
from autotrainer.planners.llm.litellm_backend import LitellmBackend, price_of
from autotrainer.planners.llm.planner import LlmPlanner
from autotrainer.planners.llm.prices import Price
from autotrainer.planners.llm.settings import LlmSettings
from autotrainer.testing.faulty_server import FAULTS, FaultyServer
from autotrainer.testing.scripted_desk import ScriptedDesk
from autotrainer.testing.scripted_model import change, go_on

from .conftest import context_of

PRICE = Price(1e-6, 4e-6)
ANSWERED = {"ok", "slow", "fenced", "wrong_usage", "no_usage", "negative_usage", "no_schema_support"}


@pytest.fixture(autouse=True, scope="module")
def loaded() -> None:
    """Import litellm, which takes seconds, before anything is timed."""
    price_of("openai/gpt-4o", LlmSettings(model="openai/gpt-4o"))


def planner_at(server: FaultyServer, desk: ScriptedDesk, **settings: Any) -> LlmPlanner:
    asked = LlmSettings.model_validate(
        {
            "model": "openai/any",
            "base_url": server.url,
            "timeout_s": 1.5,
            "digest_tokens": 3000,
            "max_retries": 1,
            **settings,
        }
    )
    planner = LlmPlanner()
    planner.bind(desk, asked, price=lambda name: PRICE)
    planner._ready().sleep = lambda seconds: None
    return planner


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_in_a_proposal_in_time_and_within_the_grant(grown, tmp_path, fault):
    granted = 0.05
    desk = ScriptedDesk(tmp_path, granted_usd=granted)
    with FaultyServer(go_on(changes=change(beta=0.02)), fault) as server:
        began = time.monotonic()
        proposal = planner_at(server, desk).propose(context_of(grown), "n003")
        assert time.monotonic() - began < 12.0
    assert proposal.planner == ("llm" if fault in ANSWERED else "rules")
    assert desk.ledger.llm_used <= granted
    assert len(desk.events("llm_decision")) == 1
    if fault not in ANSWERED:
        assert desk.events("llm_decision")[0]["reason"]


def test_spending_ends_at_the_grant_and_the_study_goes_on(grown, tmp_path):
    desk = ScriptedDesk(tmp_path, granted_usd=0.05)
    with FaultyServer("nonsense", "no_usage") as server:
        planner = planner_at(server, desk)
        for _ in range(12):
            assert planner.propose(context_of(grown), "n003").planner == "rules"
            planner._ready().breaker.succeeded()
        calls = server.calls
        assert planner.propose(context_of(grown), "n003").planner == "rules"
        assert server.calls == calls
    assert 0 < desk.ledger.llm_used <= 0.05
    assert "LLM budget" in desk.events("llm_decision")[-1]["reason"]


def test_no_grant_means_no_call(grown, tmp_path):
    desk = ScriptedDesk(tmp_path, granted_usd=0.0)
    with FaultyServer(go_on(changes=change(beta=0.02))) as server:
        assert planner_at(server, desk).propose(context_of(grown), "n003").planner == "rules"
        assert server.calls == 0


def test_an_endpoint_that_counts_above_its_cap_is_charged_the_cap_and_not_asked_again(grown, tmp_path):
    desk = ScriptedDesk(tmp_path, granted_usd=1.0)
    with FaultyServer(go_on(changes=change(beta=0.02)), "wrong_usage") as server:
        planner = planner_at(server, desk)
        planner.propose(context_of(grown), "n003")
        again = context_of(grown)
        (desk.cache_dir / next(desk.cache_dir.iterdir()).name).unlink()
        assert planner.propose(again, "n003").planner == "rules"
        assert server.calls == 1
    assert desk.events("llm_settled")[0]["over_cap"] is True
    assert desk.ledger.llm_used == desk.events("llm_reserved")[0]["usd"]


def test_the_breaker_leaves_a_failing_model_alone_then_asks_once(grown, planner_of):
    planner, desk, model = planner_of(
        CallError(Fault.SERVER, "503"), max_failures=2, rest_decisions=2, max_retries=0
    )
    for _ in range(6):
        assert planner.propose(context_of(grown), "n003").planner == "rules"
    assert len(model.requests) == 3  # two failures, two decisions of rest, one more, rest again
    assert "left alone" in desk.events("llm_decision")[3]["reason"]


def test_a_call_that_a_crash_cut_off_keeps_its_reservation(tmp_path):
    desk = ScriptedDesk(tmp_path, granted_usd=1.0)
    desk.record("llm_reserved", call=1, usd=0.4)
    assert desk.ledger.llm_left == pytest.approx(0.6)


def test_retries_back_off_and_honour_retry_after(grown, planner_of):
    planner, _desk, model = planner_of(
        CallError(Fault.RATE, "429", retry_after_s=7.0),
        CallError(Fault.SERVER, "503"),
        go_on(changes=change(beta=0.02)),
    )
    slept: list[float] = []
    planner._ready().sleep = slept.append
    assert planner.propose(context_of(grown), "n003").planner == "llm"
    assert len(model.requests) == 3
    assert sum(slept) > 7.0 + 1.0


def test_a_stop_of_the_study_ends_a_call_that_hangs(grown, tmp_path):
    from autotrainer.errors import PlannerWaitingError

    desk = ScriptedDesk(tmp_path)
    with FaultyServer("x", "never") as server:
        planner = planner_at(server, desk, timeout_s=60)
        original = desk.interrupted
        calls = iter([False, False, True])
        desk.interrupted = lambda: next(calls, True)  # type: ignore[method-assign]
        began = time.monotonic()
        with pytest.raises(PlannerWaitingError):
            planner.propose(context_of(grown), "n003")
        assert time.monotonic() - began < 8.0
        assert original is not None


def test_keys_never_reach_the_journal(grown, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTRAINER_LLM_API_KEY", "sk-abcdefghijklmnop")
    desk = ScriptedDesk(tmp_path)
    with FaultyServer("x", "unauthorised") as server:
        planner_at(server, desk).propose(context_of(grown), "n003")
    assert "sk-abcdefghijkl" not in json.dumps([event.to_json() for event in desk.log])
    assert server.bodies
    assert "sk-" not in json.dumps(server.bodies)


def test_the_schema_is_asked_for_and_is_strict(tmp_path):
    with FaultyServer(go_on()) as server:
        settings = LlmSettings(model="openai/any", base_url=server.url)
        from autotrainer.files import dumps
        from autotrainer.planners.llm.decision import schema

        request = Request("openai/any", (("user", "x"),), 64, base_url=server.url, schema=dumps(schema()))
        assert isinstance(LitellmBackend(settings).complete(request, 10.0), Reply)
    sent = server.bodies[0]["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert sent["schema"]["additionalProperties"] is False
    assert set(sent["schema"]["required"]) == set(sent["schema"]["properties"])


def test_a_hosted_model_of_unknown_price_is_refused_and_a_local_one_is_free():
    with pytest.raises(ConfigError, match="price of nobody/knows"):
        price_of("nobody/knows", LlmSettings(model="nobody/knows"))
    local = LlmSettings(model="openai/local", base_url="http://127.0.0.1:1/v1")
    assert price_of("openai/local", local) == Price(0.0, 0.0, known=False)
    assert price_of("openai/gpt-4o", LlmSettings(model="openai/gpt-4o")).prompt > 0
