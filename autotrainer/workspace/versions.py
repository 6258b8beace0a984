"""Versions of the harness: one commit a node in the study's bare repository, on branch node/<id>."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from autotrainer.errors import WorkspaceError

GIT_LIMIT_S = 60.0
_SETTINGS = {
    "GIT_AUTHOR_NAME": "autotrainer",
    "GIT_AUTHOR_EMAIL": "autotrainer@localhost",
    "GIT_COMMITTER_NAME": "autotrainer",
    "GIT_COMMITTER_EMAIL": "autotrainer@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def commit(repository: Path, workspace: Path, node: str, *, parent: str | None, message: str) -> str:
    """Commit a workspace as the version of a node and return the commit; a second call moves the branch.

    Raises:
        WorkspaceError: git is missing or fails.
    """
    repository.parent.mkdir(parents=True, exist_ok=True)
    _git(repository, "init", "--bare", "--quiet", str(repository))
    with _index() as index:
        _git(repository, "add", "--all", "--force", ".", work_tree=workspace, index=index)
        tree = _git(repository, "write-tree", index=index).strip()
    parents = ["-p", parent] if parent else []
    made = _git(repository, "commit-tree", tree, *parents, "-m", message).strip()
    branch = f"refs/heads/node/{node}"
    # One control plane writes to a study: a lock that is there was left by one that was killed.
    (repository / f"{branch}.lock").unlink(missing_ok=True)
    _git(repository, "update-ref", branch, made)
    return made


def checkout(repository: Path, version: str, target: Path) -> None:
    """Write the files of a version into a new or empty folder.

    Raises:
        WorkspaceError: there is no such version, or the folder has something in it.
    """
    if target.exists() and any(target.iterdir()):
        raise WorkspaceError(f"{target} is not empty: a version is written into a new folder")
    target.mkdir(parents=True, exist_ok=True)
    with _index() as index:
        _git(repository, "read-tree", version, index=index)
        _git(repository, "checkout-index", "--all", index=index, work_tree=target)


def diff(repository: Path, old: str, new: str) -> str:
    """The changes between two versions, as a unified diff.

    Raises:
        WorkspaceError: one of them is not there.
    """
    return _git(repository, "diff", "--no-color", "--no-ext-diff", "--end-of-options", old, new, "--")


def apply_patch(workspace: Path, patch: str) -> None:
    """Apply a unified diff, all of it or nothing, to a workspace (paths relative to it, after `a/` and `b/`).

    Raises:
        WorkspaceError: it does not apply, or reaches out of the workspace.
    """
    # Without a repository above it git takes paths as relative to the workspace.
    ceiling = {"GIT_CEILING_DIRECTORIES": str(workspace.resolve().parent)}
    _run(["apply", "--whitespace=nowarn", "-"], "the patch does not apply", ceiling, workspace, patch)


def _git(repository: Path, *arguments: str, work_tree: Path | None = None, index: Path | None = None) -> str:
    where = {"GIT_DIR": str(repository.absolute())}
    if work_tree is not None:
        where["GIT_WORK_TREE"] = str(work_tree.absolute())
    if index is not None:
        where["GIT_INDEX_FILE"] = str(index)
    return _run(arguments, f"git {arguments[0]} failed", where, work_tree or repository.parent)


def _run(
    arguments: Sequence[str],
    trouble: str,
    where: dict[str, str],
    cwd: Path,
    text: str | None = None,
) -> str:
    # What a surrounding git set for itself (in a hook, in a rebase) is not meant for ours.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments],
            env={**environment, **_SETTINGS, **where},
            input=(text or "").encode(),
            capture_output=True,
            check=False,
            timeout=GIT_LIMIT_S,
            cwd=cwd,
        )
    except FileNotFoundError:
        raise WorkspaceError("git is not installed: harness versions are kept in a git repository") from None
    except subprocess.TimeoutExpired:
        raise WorkspaceError(f"{trouble}: it took more than {GIT_LIMIT_S:.0f} s") from None
    if done.returncode:
        raise WorkspaceError(f"{trouble}: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")
    return done.stdout.decode("utf-8", "replace")


@contextmanager
def _index() -> Iterator[Path]:
    """A git index of its own, which is not there yet: one left by a killed process would be in the way."""
    with tempfile.TemporaryDirectory(prefix="autotrainer-index-") as folder:
        yield Path(folder, "index")
