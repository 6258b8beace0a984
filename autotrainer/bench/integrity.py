"""Whether cheating nodes are found and honest ones left alone: built nodes through the integrity gates.

The nodes are built, not trained: real copies of the harness with real edits and real weight files, and scores
written to show what a cheat or an odd honest run would show. It measures the gates, and not how often a
policy cheats.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from autotrainer.bench.base import BenchOptions
from autotrainer.bench.integrity_nodes import cheating, honest
from autotrainer.evaluation.gates import judge


def run(options: BenchOptions) -> dict[str, Any]:
    """Judge every node; rows say which gate found what."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="integrity-") as folder:
        for kind, nodes in (("cheat", cheating(Path(folder))), ("honest", honest(Path(folder)))):
            for node in nodes:
                found = judge(node.evidence)
                gates = sorted({finding.gate for finding in found})
                rows.append(
                    {
                        "kind": kind,
                        "name": node.name,
                        "expected": node.gate,
                        "gates": gates,
                        "right_reason": node.gate in gates if kind == "cheat" else not gates,
                        "reasons": [finding.message for finding in found],
                    }
                )
                options.progress(f"{kind}: {node.name}: {', '.join(gates) or 'valid'}")
    cheats = [row for row in rows if row["kind"] == "cheat"]
    good = [row for row in rows if row["kind"] == "honest"]
    return {
        "built": "nodes are built by hand, scores are written, nothing is trained",
        "figures": {
            "cheats": len(cheats),
            "cheats_promoted": sum(not row["gates"] for row in cheats),
            "cheats_right_reason": sum(row["right_reason"] for row in cheats),
            "honest": len(good),
            "honest_invalidated": sum(bool(row["gates"]) for row in good),
        },
        "rows": rows,
    }
