"""What a workspace may hold: the pristine frozen files, editable files of the allow-list, nothing else."""

from __future__ import annotations

from pathlib import Path

from autotrainer.errors import WorkspaceError
from autotrainer.workspace.copy import ALLOWED, allowed_files
from autotrainer.workspace.digest import EDITABLE, frozen_digests

_EDITABLE_TEXT = " and ".join(f"{folder}*.py" for folder in EDITABLE)


def check_workspace(workspace: Path, pristine: Path) -> None:
    """Refuse a workspace with a link, with a file that does not belong there, or with another frozen file.

    It looks at what is there, not at what a patch says: renames and copies name no file in the usual
    lines, and a file at the top of the workspace would be found before the library of its name.

    Raises:
        WorkspaceError: the message names the files.
    """
    allowed = {path for tree in ALLOWED for path in allowed_files(tree, workspace / tree)}
    for path in sorted(workspace.rglob("*")):
        name = path.relative_to(workspace).as_posix()
        if path.is_symlink():
            raise WorkspaceError(f"{name} is a link: a workspace has only files and folders")
        if not path.is_dir() and path not in allowed:
            raise WorkspaceError(f"{name} does not belong into a workspace: editable are {_EDITABLE_TEXT}")
    here, there = frozen_digests(workspace), frozen_digests(pristine)
    changed = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    if changed:
        raise WorkspaceError(
            f"frozen are {', '.join(changed)}, and they differ: editable are {_EDITABLE_TEXT}"
        )
