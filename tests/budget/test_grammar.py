import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrainer.budget.grammar import parse_budget
from autotrainer.errors import ConfigError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@given(
    st.integers(1, 512),
    st.sampled_from(["CPU", "H100", "a100", "RTX-4090"]),
    st.integers(1, 99),
    st.sampled_from(sorted(UNITS)),
)
def test_a_budget_grants_devices_times_seconds(devices, kind, amount, unit):
    budget = parse_budget(f"{devices}x{kind}x{amount}{unit}")
    assert (budget.devices, budget.kind, budget.seconds) == (devices, kind.upper(), amount * UNITS[unit])
    assert budget.device_s == devices * amount * UNITS[unit]
    assert budget.is_cpu == (kind == "CPU")


@pytest.mark.parametrize(
    "text", ["", "8", "8xH100", "H100x24h", "8xH100x24", "8xH100x24w", "-1xCPUx6m", "2 x CPU x 6m", "8x8x8h"]
)
def test_anything_else_is_refused_with_the_form(text):
    with pytest.raises(ConfigError, match=r"NxDxT.*2xCPUx6m or 8xH100x24h"):
        parse_budget(text)


@pytest.mark.parametrize("text", ["0xCPUx6m", "2xCPUx0m"])
def test_a_budget_of_nothing_is_refused(text):
    with pytest.raises(ConfigError, match="grants nothing"):
        parse_budget(text)
