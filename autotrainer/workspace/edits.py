"""Edits of a harness version: search/replace blocks and whole files, applied and given as a unified diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotrainer.errors import WorkspaceError
from autotrainer.workspace.digest import is_frozen

MAX_FILE_BYTES, MAX_TOTAL_BYTES = 32_000, 64_000
_PATH = re.compile(r"(harness/hooks|harness/rewards|diagnostics)/[a-z][a-z0-9_]{0,60}\.py")


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One file before (None: it is new) and after the edits."""

    path: str
    before: str | None
    after: str


def apply_edits(files: Mapping[str, str], edits: Sequence[Mapping[str, Any]]) -> tuple[FileEdit, ...]:
    """The edited files, in the order of their first edit. Later edits see what earlier ones did.

    Args:
        files: the editable files by path, as harness/hooks/x.py or diagnostics/x.py.
        edits: mappings with path and either content, or search and replace.

    Raises:
        WorkspaceError: a path may not be edited, a text to be replaced is not there exactly once, or a file
            is too large; the message is for the author of the edit.
    """
    after: dict[str, str] = {}
    for edit in edits:
        path = str(edit.get("path", ""))
        check_path(path)
        now = after.get(path, files.get(path))
        after[path] = _edited(path, now, edit)
    total = 0
    for path, text in after.items():
        size = len(text.encode())
        total += size
        if size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
            raise WorkspaceError(
                f"{path}: {size} bytes are too many: a file has at most {MAX_FILE_BYTES}, "
                f"all edited ones {MAX_TOTAL_BYTES}"
            )
    changed = (FileEdit(path, files.get(path), text) for path, text in after.items())
    found = tuple(file for file in changed if file.before != file.after)
    if edits and not found:
        raise WorkspaceError("the edits change nothing: leave them out")
    return found


def check_path(path: str) -> None:
    """Refuse a path that may not be edited.

    Raises:
        WorkspaceError: it is frozen, elsewhere, or oddly named.
    """
    frozen = path.startswith("harness/") and is_frozen(path)
    if not _PATH.fullmatch(path) or frozen:
        raise WorkspaceError(
            f"{path!r} may not be edited: allowed are harness/hooks/NAME.py, harness/rewards/NAME.py and "
            "diagnostics/NAME.py, NAME in lower case; api.py and __init__.py are frozen"
        )


def _edited(path: str, now: str | None, edit: Mapping[str, Any]) -> str:
    content, search, replacement = edit.get("content"), edit.get("search"), edit.get("replace")
    if content is not None:
        if search is not None:
            raise WorkspaceError(f"{path}: give either content, or search and replace")
        return _ended(str(content))
    if search is None or replacement is None:
        raise WorkspaceError(f"{path}: give either content, or search and replace")
    if now is None:
        raise WorkspaceError(f"{path}: there is no such file to search in: write it whole, with content")
    count = now.count(str(search)) if search else 0
    if count != 1:
        raise WorkspaceError(
            f"{path}: the searched text is there {count} times, it must be there exactly once"
        )
    return _ended(now.replace(str(search), str(replacement)))


def _ended(text: str) -> str:
    text = text.replace("\r\n", "\n")
    return text if text.endswith("\n") else text + "\n"


def unified_diff(edits: Sequence[FileEdit]) -> str:
    """The edits as a diff that git applies."""
    return "".join(_diff(edit) for edit in sorted(edits, key=lambda edit: edit.path))


def _diff(edit: FileEdit) -> str:
    old = edit.before.splitlines(keepends=True) if edit.before is not None else []
    name = f"a/{edit.path}" if edit.before is not None else "/dev/null"
    lines = list(
        difflib.unified_diff(old, edit.after.splitlines(keepends=True), name, f"b/{edit.path}", lineterm="\n")
    )
    head = f"diff --git a/{edit.path} b/{edit.path}\n"
    if edit.before is None:
        head += "new file mode 100644\n"
    closed = [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return head + "".join(closed)


def editable_files(workspace: Path) -> dict[str, str]:
    """The files of a workspace that may be edited, by path relative to it."""
    found = {}
    for folder in ("harness/hooks", "harness/rewards"):
        for path in sorted((workspace / folder).glob("*.py")):
            name = path.relative_to(workspace).as_posix()
            if not is_frozen(name):
                found[name] = path.read_text(encoding="utf-8")
    return found
