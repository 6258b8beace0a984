"""The sandbox's self-check: attacks that get through, and what a run costs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from autotrainer.bench.base import BenchOptions
from autotrainer.errors import ConfigError
from autotrainer.resources import tree


def run(options: BenchOptions) -> dict[str, Any]:
    """Run every attack; `suite` names a backend (bubblewrap, container).

    Raises:
        ConfigError: the backend does not work here.
    """
    if options.suite not in ("", "bubblewrap", "container"):
        raise ConfigError(f"unknown suite {options.suite!r}: known are bubblewrap, container")
    options.progress("running the attacks")
    done = subprocess.run(
        [sys.executable, "-m", "sandboxes.selfcheck", *([options.suite] if options.suite else [])],
        cwd=tree("sandboxes").parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    value = json.loads(done.stdout)
    if value["backend"] is None:
        raise ConfigError(f"no sandbox works here: {value['error']}")
    return {
        "figures": {
            "attacks": value["attacks"],
            "attacks_succeeded": len(value["failed"]),
            "overhead_ms": value["overhead_ms"],
        },
        "backend": value["backend"],
        "rows": [{"attack": name, "achieved": text} for name, text in value["failed"].items()],
    }
