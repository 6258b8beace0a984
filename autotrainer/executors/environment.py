"""The environment of a job: an allow-list of variables, never a secret."""

from __future__ import annotations

import os
from pathlib import Path

from autotrainer.executors.base import Resources

ALLOWED = (
    "CUDA_HOME",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "PATH",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "XDG_CACHE_HOME",
)
"""Variables that travel into a job; tokens and keys do not."""

THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
"""What libraries ask for their number of threads, so that jobs side by side do not fight for cores."""

SETTINGS = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it cuBLAS is not deterministic
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}


def job_environment(resources: Resources, workspace: Path) -> dict[str, str]:
    """The whole environment of a job that runs `workspace`.

    A job sees the devices that it was given and no other; one for the CPU sees none.
    """
    return {
        **{name: os.environ[name] for name in ALLOWED if name in os.environ},
        **SETTINGS,
        **dict.fromkeys(THREADS, str(resources.threads)),
        "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in resources.devices),
        "PYTHONPATH": str(workspace),
    }
