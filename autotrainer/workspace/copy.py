"""Copies of the harness by allow-list: what is not named here never travels into a job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from autotrainer.errors import WorkspaceError

ALLOWED = {
    "harness": (
        "*.py",
        "hooks/*.py",
        "rewards/*.py",
        "trainers/**/*.py",
        "stages/**/*.py",
        "tasks/**/*.py",
        "tasks/**/*.toml",
    ),
    "sandboxes": ("*.py",),
}
"""Patterns of the files that travel, by tree."""


def allowed_files(tree: str, folder: Path) -> Iterator[Path]:
    """The files of a tree that travel, sorted; no caches and nothing hidden."""
    found = {path for pattern in ALLOWED[tree] for path in folder.glob(pattern) if path.is_file()}
    for path in sorted(found):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") or part == "__pycache__" for part in parts):
            yield path


def copy_tree(tree: str, source: Path, target: Path) -> None:
    """Copy one tree by the allow-list; files that are there already are overwritten.

    Raises:
        WorkspaceError: the source has no files that travel.
    """
    files = list(allowed_files(tree, source))
    if not files:
        raise WorkspaceError(f"{source} holds no file of the {tree} tree")
    for path in files:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def copy_pristine(harness: Path, sandboxes: Path, target: Path) -> None:
    """Copy harness and sandboxes side by side into `target`."""
    copy_tree("harness", harness, target / "harness")
    copy_tree("sandboxes", sandboxes, target / "sandboxes")
