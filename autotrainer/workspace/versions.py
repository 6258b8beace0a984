"""Versions of the harness: one commit a node in the study's bare repository, on branch node/<id>."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from autotrainer.errors import WorkspaceError

_IDENTITY = {
    "GIT_AUTHOR_NAME": "autotrainer", "GIT_AUTHOR_EMAIL": "autotrainer@localhost", "GIT_COMMITTER_NAME": "autotrainer",
    "GIT_COMMITTER_EMAIL": "autotrainer@localhost", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
}


def _git(repository: Path, *arguments: str, work_tree: Path | None = None, index: Path | None = None,
         text: str | None = None) -> str:
    environment = {**os.environ, **_IDENTITY, "GIT_DIR": str(repository)}
    if work_tree is not None:
        environment["GIT_WORK_TREE"] = str(work_tree)
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    try:
        done = subprocess.run(
            ["git", *arguments], env=environment, input=text, capture_output=True, text=True, check=False, timeout=60,
            cwd=work_tree or repository.parent,
        )
    except FileNotFoundError:
        raise WorkspaceError("git is not installed: harness versions are kept in a git repository") from None
    if done.returncode:
        raise WorkspaceError(f"git {arguments[0]} failed: {done.stderr.strip()[:500]}")
    return done.stdout


def commit(repository: Path, workspace: Path, node: str, *, parent: str | None, message: str) -> str:
    """Commit a workspace as the version of a node and return the commit; a second call moves the branch."""
    if not repository.exists():
        repository.parent.mkdir(parents=True, exist_ok=True)
        _git(repository, "init", "--bare", "--quiet", str(repository))
    index = repository / f"index-{node}"
    index.unlink(missing_ok=True)
    _git(repository, "add", "--all", "--force", ".", work_tree=workspace, index=index)
    tree = _git(repository, "write-tree", work_tree=workspace, index=index).strip()
    index.unlink(missing_ok=True)
    parents = ["-p", parent] if parent else []
    made = _git(repository, "commit-tree", tree, *parents, "-m", message).strip()
    _git(repository, "update-ref", f"refs/heads/node/{node}", made)
    return made


def checkout(repository: Path, version: str, target: Path) -> None:
    """Write the files of a version into an empty or new folder.

    Raises:
        WorkspaceError: there is no such version.
    """
    target.mkdir(parents=True, exist_ok=True)
    index = target.parent / f".index-{os.getpid()}"
    _git(repository, "read-tree", version, index=index, work_tree=target)
    _git(repository, "checkout-index", "--all", "--force", work_tree=target, index=index)
    index.unlink(missing_ok=True)


def diff(repository: Path, old: str, new: str) -> str:
    """The changes between two versions, as a unified diff."""
    return _git(repository, "diff", "--no-color", old, new)


def apply_patch(workspace: Path, patch: str) -> None:
    """Apply a unified diff to a workspace (paths relative to it).

    Raises:
        WorkspaceError: it does not apply.
    """
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(workspace.parent), "GIT_DIR": os.devnull}
    environment.pop("GIT_DIR")
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"], input=patch, text=True, capture_output=True, cwd=workspace,
        check=False, timeout=60, env=environment,
    )
    if done.returncode:
        raise WorkspaceError(f"the patch does not apply: {done.stderr.strip()[:500]}")
