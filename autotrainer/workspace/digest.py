"""Digests of the frozen files of a workspace: what neither planner nor job may change."""

from __future__ import annotations

import hashlib
from pathlib import Path

from autotrainer.workspace.copy import ALLOWED, allowed_files

EDITABLE = ("harness/hooks/", "harness/rewards/")
FROZEN_WITHIN = ("harness/hooks/api.py", "harness/hooks/__init__.py", "harness/rewards/__init__.py")


def is_frozen(path: str) -> bool:
    """Whether a file (path relative to the workspace) is frozen: all but hooks and shaping rewards are."""
    return path in FROZEN_WITHIN or not path.startswith(EDITABLE)


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def frozen_digests(workspace: Path) -> dict[str, str]:
    """The digests of the frozen files, by path relative to the workspace."""
    found: dict[str, str] = {}
    for tree in ALLOWED:
        for path in allowed_files(tree, workspace / tree):
            name = path.relative_to(workspace).as_posix()
            if is_frozen(name):
                found[name] = digest(path)
    return found
