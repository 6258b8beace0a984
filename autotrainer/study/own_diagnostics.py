"""The study's own diagnostics: run over a run's metrics and rollouts in a sandboxed child, never in a job."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.errors import WorkspaceError
from autotrainer.files import dumps
from autotrainer.resources import tree as shipped_tree
from autotrainer.study.runtime import Runtime
from autotrainer.tree.finding import Finding, Severity
from autotrainer.tree.node import Node

LIMIT_S = 20.0
PATHOLOGY = "own"
_DRIVER = """
import json, sys
code, data = sys.argv[1], json.load(open(sys.argv[2]))
scope = {"__name__": "diagnostic"}
exec(compile(open(code).read(), code, "exec"), scope)
found = [scope["check"](run["rows"], run["rollouts"]) for run in data]
sys.stdout.write("\\n" + json.dumps(found, default=str) + "\\n")
"""


class DiagnosticFailed(WorkspaceError):
    """A diagnostic raised, ran too long, or returned what is no list of findings."""


def record_own_findings(runtime: Runtime, node: Node) -> None:
    """Run every diagnostic of the study over an ended node; one that fails is noted once and does no harm."""
    folder = runtime.paths.root / "diagnostics"
    if not folder.is_dir() or not node.attempt or any(f.pathology == PATHOLOGY for f in node.findings):
        return
    for path in sorted(folder.glob("*.py")):
        try:
            results = check(runtime, path.read_text("utf-8"), [_run(runtime, node)])
        except DiagnosticFailed as error:
            runtime.record("note", text=f"diagnostic {path.name} on {node.id}: {error}", data={})
            continue
        for finding in findings(path.stem, results[0]):
            if not any(known.kind == finding.kind for known in runtime.tree[node.id].findings):
                runtime.record("node_finding", node=node.id, finding=finding.to_json())


def separates(runtime: Runtime, text: str) -> str | None:
    """Why a diagnostic may not be used: it warns of runs that went well, or of none that went badly."""
    good, bad = _past(runtime)
    try:
        results = check(runtime, text, [_run(runtime, node) for node in (*good, *bad)])
    except DiagnosticFailed as error:
        return str(error)
    warned = [any(f.severity is not Severity.INFO for f in findings("new", rows)) for rows in results]
    wrong = [node.id for node, hit in zip(good, warned[: len(good)], strict=True) if hit]
    found = [node.id for node, hit in zip(bad, warned[len(good) :], strict=True) if hit]
    if wrong:
        return f"it warns of {', '.join(wrong[:5])}, which went well"
    if bad and not found:
        return f"it warns of none of the runs that went badly ({', '.join(n.id for n in bad[:5])})"
    return None


def check(runtime: Runtime, text: str, runs: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """What `check(rows, rollouts)` of a diagnostic's text returns for each run.

    Raises:
        DiagnosticFailed: it gave no such thing in time.
    """
    with tempfile.TemporaryDirectory(prefix="autotrainer-diagnostic-") as name:
        folder = Path(name)
        (folder / "diagnostic.py").write_text(text, "utf-8")
        (folder / "driver.py").write_text(_DRIVER, "utf-8")
        (folder / "data.json").write_text(json.dumps(runs, default=str), "utf-8")
        argv = [sys.executable, "-I", *(str(folder / f) for f in ("driver.py", "diagnostic.py", "data.json"))]
        environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": name}
        try:
            done = subprocess.run(
                isolated(argv, [runtime.paths.vault, runtime.paths.evals]),
                env=environment,
                cwd=name,
                capture_output=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DiagnosticFailed(f"it took more than {LIMIT_S:.0f} s") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DiagnosticFailed(f"it raised {lines[-1][:300] if lines else 'nothing that could be read'}")
    try:
        found = json.loads(done.stdout.decode("utf-8", "replace").strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise DiagnosticFailed("it printed instead of returning a list") from None
    if not isinstance(found, list) or not all(isinstance(rows, list) for rows in found):
        raise DiagnosticFailed("check returned no list")
    return found


def isolated(argv: Sequence[str], hide: Sequence[Path]) -> list[str]:
    """The command in the best isolation of this machine.

    Raises:
        DiagnosticFailed: the isolation gave no answer.
    """
    request = {"argv": list(argv), "hide": [str(p) for p in hide if p.exists()], "network": False}
    done = subprocess.run(
        [sys.executable, "-s", "-m", "sandboxes.isolation", "wrap"],
        env={"PATH": "/usr/bin:/bin:/usr/sbin", "PYTHONPATH": str(shipped_tree("sandboxes").parent)},
        cwd="/",
        input=dumps(request).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise DiagnosticFailed(f"the isolation failed: {done.stderr.decode('utf-8', 'replace')[-200:]}")
    return list(json.loads(done.stdout)["argv"])


def findings(name: str, rows: Sequence[Any]) -> list[Finding]:
    """The findings in a diagnostic's answer; it warns, it never kills. What is no finding is left out."""
    found = []
    for row in rows[:10]:
        if not isinstance(row, dict):
            continue
        severity = str(row.get("severity", "warning"))
        onset = row.get("onset_step", 0)
        found.append(
            Finding(
                kind=str(row.get("kind", name))[:60],
                pathology=PATHOLOGY,
                severity=Severity(severity) if severity in set(Severity) else Severity.WARNING,
                confidence=0.5,
                onset_step=onset if isinstance(onset, int) and not isinstance(onset, bool) else 0,
                message=" ".join(str(row.get("message", "")).split())[:400],
                evidence=(),
            )
        )
    return found


def _past(runtime: Runtime) -> tuple[list[Node], list[Node]]:
    """Ended runs that gained, and runs that were killed."""
    from autotrainer.tree.state import NodeState

    base = runtime.tree.nodes[0].score("dev") if len(runtime.tree) else None
    good = [n for n in runtime.tree.candidates if base is None or (n.score("dev") or 0.0) > base]
    bad = [n for n in runtime.tree.with_state(NodeState.PRUNED) if n.attempt]
    return good[-8:], bad[-8:]


def _run(runtime: Runtime, node: Node) -> dict[str, Any]:
    from autotrainer.study.llm import read_rollouts

    metrics: Metrics = runtime.metrics(node.id)
    rollouts = read_rollouts(runtime.paths.job(node.job_id) / "rollouts", 128)
    return {"rows": metrics.rows, "rollouts": rollouts}
