import os

import pytest

from autotrainer.budget.grammar import parse_budget
from autotrainer.errors import ConfigError
from autotrainer.executors import devices


@pytest.mark.parametrize(
    ("name", "kind", "same"),
    [
        ("NVIDIA H100 80GB HBM3", "H100", True),
        ("NVIDIA H100 PCIe", "h100", True),
        ("NVIDIA H100 80GB HBM3", "H100-80GB", True),
        ("NVIDIA GH200 480GB", "H200", False),
        ("NVIDIA H200", "H100", False),
        ("NVIDIA A100-SXM4-40GB", "A100", True),
        ("NVIDIA L40S", "L40", False),
        ("NVIDIA L4", "L4", True),
        ("NVIDIA GeForce RTX 4090", "RTX-4090", True),
        ("NVIDIA GeForce RTX 4090", "4090", True),
        ("Tesla V100-SXM2-16GB", "V100", True),
        ("Tesla V100-SXM2-16GB", "GPU", True),
        ("NVIDIA H100 80GB HBM3", "HBM3-H100", False),
    ],
)
def test_a_kind_is_found_in_a_product_name_by_whole_words(name, kind, same):
    assert devices.is_kind(name, kind) is same


def test_cpu_cores_are_those_this_process_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert devices.count_devices("CPU") == 1
        assert devices.describe_devices().startswith("1 CPU core and ")
    finally:
        os.sched_setaffinity(0, before)


def test_devices_that_are_there_are_granted(monkeypatch):
    monkeypatch.setattr(devices, "gpu_names", lambda: ("NVIDIA H100 80GB HBM3",) * 8)
    devices.require_devices(parse_budget("8xH100x24h"))


def test_a_budget_for_more_than_there_is_says_what_fits(monkeypatch):
    monkeypatch.setattr(devices, "cpu_cores", lambda: 16)
    monkeypatch.setattr(
        devices, "gpu_names", lambda: ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA L4")
    )
    with pytest.raises(ConfigError) as refused:
        devices.require_devices(parse_budget("8xH100x24h"))
    message = str(refused.value)
    assert "16 CPU cores and 2 NVIDIA H100 80GB HBM3, 1 NVIDIA L4" in message
    assert "--budget 2xH100x24h" in message


def test_a_budget_for_a_kind_that_is_not_there_offers_cpu_cores(monkeypatch):
    monkeypatch.setattr(devices, "gpu_names", lambda: ())
    with pytest.raises(ConfigError, match=r"no NVIDIA GPU: .*--dry-run.*--budget \d+xCPUx"):
        devices.require_devices(parse_budget("1xA100x1h"))


@pytest.mark.gpu
def test_a_gpu_of_this_machine_is_counted_by_its_own_name():
    assert devices.count_devices("GPU") == len(devices.gpu_names()) > 0
