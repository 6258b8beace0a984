"""Settings of every test: offline, one thread, reproducible; GPU tests only where there is a GPU."""

import os

os.environ.update(
    AUTOTRAINER_EVIDENCE="none",
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    DO_NOT_TRACK="1",
    MLFLOW_DISABLE_TELEMETRY="true",
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
)

import pytest
from hypothesis import settings

settings.register_profile("repository", deadline=None, derandomize=True, database=None)
settings.load_profile("repository")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    from autotrainer.executors.devices import gpu_names

    if not gpu_names():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA device"))
