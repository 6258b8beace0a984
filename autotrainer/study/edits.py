"""Edits in a study: files of the version a node inherits, patches against it, the study's diagnostics."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotrainer.files import write_text
from autotrainer.planners.llm.desk import Edited
from autotrainer.study.runtime import Runtime
from autotrainer.tree.proposal import Proposal
from autotrainer.workspace.edits import apply_edits, editable_files, unified_diff
from autotrainer.workspace.versions import checkout

DIAGNOSTICS = "diagnostics"


def editable(runtime: Runtime, node: str) -> dict[str, str]:
    """The editable files of a node's version and the study's diagnostics, by path."""
    version = runtime.tree[node].harness
    if version:
        with tempfile.TemporaryDirectory(prefix="autotrainer-version-") as folder:
            target = Path(folder) / "workspace"
            checkout(runtime.paths.harness_git, version, target)
            return {**editable_files(target), **diagnostics(runtime)}
    return {**editable_files(runtime.paths.pristine), **diagnostics(runtime)}


def diagnostics(runtime: Runtime) -> dict[str, str]:
    """The study's own diagnostics by path."""
    folder = runtime.paths.root / DIAGNOSTICS
    return {f"{DIAGNOSTICS}/{path.name}": path.read_text("utf-8") for path in sorted(folder.glob("*.py"))}


def apply(runtime: Runtime, proposal: Proposal, edits: Sequence[Mapping[str, Any]]) -> Edited:
    """The edits as a patch of the version that the proposal inherits, and as new diagnostics.

    Raises:
        WorkspaceError: they do not apply, or reach beyond what may be edited.
    """
    files = editable(runtime, proposal.parents[0])
    changed = apply_edits(files, edits)
    code = [edit for edit in changed if not edit.path.startswith(f"{DIAGNOSTICS}/")]
    own = [edit for edit in changed if edit.path.startswith(f"{DIAGNOSTICS}/")]
    return Edited(
        patch=unified_diff(code),
        diagnostics={Path(edit.path).name: edit.after for edit in own},
        diagnostics_diff=unified_diff(own),
        files={edit.path: edit.after for edit in changed},
    )


def keep_diagnostics(runtime: Runtime, edited: Edited) -> None:
    """Write vetted diagnostics into the study."""
    for name, text in edited.diagnostics.items():
        folder = runtime.paths.root / DIAGNOSTICS
        folder.mkdir(exist_ok=True)
        write_text(folder / name, text)
