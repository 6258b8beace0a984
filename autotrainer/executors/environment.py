"""The environment of a job: an allow-list of variables, never a secret."""

from __future__ import annotations

import os
from pathlib import Path

from autotrainer.executors.base import Resources

ALLOWED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_ENDPOINT",
    "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "CUDA_HOME", "SSL_CERT_FILE", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
)
"""Variables that travel into a job; tokens and keys do not."""


def job_environment(resources: Resources, workspace: Path) -> dict[str, str]:
    """The whole environment of a job that runs `workspace`.

    Threads are capped, so that jobs side by side do not fight for cores, and a job for the CPU sees no GPU.
    """
    environment = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    threads = str(resources.threads)
    devices = ",".join(str(index) for index in resources.devices) if resources.device == "cuda" else ""
    return {
        **environment, "PYTHONPATH": str(workspace), "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads,
        "NUMEXPR_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": devices, "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
