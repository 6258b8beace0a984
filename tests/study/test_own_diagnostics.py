"""A study's own diagnostics run apart from it, have to tell bad runs from good ones, and can do no harm."""

import json

import pytest

from autotrainer.files import dumps
from autotrainer.study.own_diagnostics import (
    DiagnosticFailed,
    check,
    findings,
    record_own_findings,
    separates,
)
from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.tree.finding import Severity

FLAT = """
def check(rows, rollouts):
    flat = all(row["reward"] <= 0 for row in rows)
    return [{"kind": "flat", "severity": "warning", "onset_step": 1, "message": "no reward"}] if flat else []
"""
ALWAYS = FLAT.replace("if flat else []", "")
NEVER = "def check(rows, rollouts):\n    return []\n"


@pytest.fixture
def runtime(opened):
    """A study with one run that went well (n001) and one that was killed (n002)."""
    builder = TreeBuilder()
    builder.base(0.3)
    builder.completed(builder.node(), 0.5)
    builder.pruned(builder.node(), a_finding("collapse"))
    found = opened(builder)
    for node, reward in (("n001", 0.5), ("n002", 0.0)):
        folder = found.paths.job(f"{node}.1")
        folder.mkdir(parents=True)
        rows = [{"schema_version": 1, "step": step, "reward": reward} for step in range(1, 6)]
        (folder / "metrics.jsonl").write_text("".join(dumps(row) + "\n" for row in rows))
    return found


def test_a_diagnostic_has_to_tell_past_bad_runs_from_past_good_ones(runtime):
    assert separates(runtime, FLAT) is None
    assert "warns of n001, which went well" in str(separates(runtime, ALWAYS))
    assert "none of the runs that went badly (n002)" in str(separates(runtime, NEVER))


def test_a_diagnostic_in_use_adds_its_findings_and_never_kills(runtime):
    folder = runtime.paths.root / "diagnostics"
    folder.mkdir()
    (folder / "flat.py").write_text(FLAT)
    (folder / "broken.py").write_text("def check(rows, rollouts):\n    return 1 / 0\n")
    record_own_findings(runtime, runtime.tree["n002"])
    own = [finding for finding in runtime.tree["n002"].findings if finding.kind == "flat"]
    assert [(f.severity, f.pathology, f.kills) for f in own] == [(Severity.WARNING, "own", False)]
    notes = [event.data["text"] for event in runtime.journal if event.kind == "note"]
    assert any("broken.py on n002: it raised ZeroDivisionError" in text for text in notes)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def check(rows, rollouts):\n    return 5\n", "no list"),
        ("def nothing():\n    pass\n", "KeyError"),
        ("import sys\ndef check(rows, rollouts):\n    sys.exit(3)\n", "raised"),
    ],
)
def test_what_a_diagnostic_does_wrong_is_said(runtime, code, words):
    with pytest.raises(DiagnosticFailed, match=words):
        check(runtime, code, [{"rows": [], "rollouts": []}])


def test_a_diagnostic_cannot_read_the_vault(runtime):
    runtime.paths.vault.mkdir()
    (runtime.paths.vault / "dev.jsonl").write_text("secret")
    code = (
        f"def check(rows, rollouts):\n    return [open({str(runtime.paths.vault / 'dev.jsonl')!r}).read()]\n"
    )
    if json.loads(_probe())["grade"] != "A":
        pytest.skip("this machine hides nothing: isolation grade is not A")
    try:
        text = json.dumps(check(runtime, code, [{"rows": [], "rollouts": []}]))
    except DiagnosticFailed as error:
        text = str(error)
    assert "secret" not in text


def _probe() -> str:
    import subprocess
    import sys

    return subprocess.run(
        [sys.executable, "-m", "sandboxes.isolation", "probe"], capture_output=True, text=True, check=True
    ).stdout


def test_odd_answers_of_a_diagnostic_become_findings_or_nothing():
    rows = [{"severity": "fatal", "onset_step": "3", "message": "x" * 1000}, "text", None, {}]
    found = findings("mine", rows)
    assert [f.kind for f in found] == ["mine", "mine"]
    assert (found[0].severity, found[0].onset_step, len(found[0].message)) == (Severity.WARNING, 0, 400)
