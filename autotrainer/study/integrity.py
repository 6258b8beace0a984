"""The integrity gates on a node of a study: its own edits, read before its score may count."""

from __future__ import annotations

import json
from pathlib import Path

from autotrainer.evaluation.edits import MIN_COPIED, copied_items, edit_findings
from autotrainer.study.runtime import Runtime
from autotrainer.tree.node import Node

_EDITABLE = ("hooks", "rewards")


def edit_reasons(runtime: Runtime, node: Node) -> list[str]:
    """Why a node's patch makes it invalid: forbidden access, or judged items in it; empty without a patch."""
    if not node.proposal.patch:
        return []
    files = edited_files(runtime, node)
    reasons = [f"forbidden access: {text}" for text in edit_findings(files)]
    copied = copied_items(files, judged_questions(runtime.paths.vault))
    if len(copied) >= MIN_COPIED:
        reasons.append(f"dev items in edits: {len(copied)} judged items stand in them")
    return reasons


def edited_files(runtime: Runtime, node: Node) -> dict[str, str]:
    """Hooks and rewards of a node's workspace that are neither shipped, nor a skill's, nor the user's own."""
    workspace, pristine = runtime.paths.workspace(node.id), runtime.paths.pristine
    known = {
        path.read_bytes()
        for skill in runtime.library.values()
        if (path := Path(skill.card.folder) / "hook.py").is_file()
    }
    found: dict[str, str] = {}
    for folder in _EDITABLE:
        for path in sorted((workspace / "harness" / folder).glob("*.py")):
            name = path.relative_to(workspace)
            content, shipped = path.read_bytes(), pristine / name
            if content in known or (shipped.is_file() and shipped.read_bytes() == content):
                continue
            found[name.as_posix()] = content.decode("utf-8", "replace")
    return found


def judged_questions(vault: Path) -> list[str]:
    """What is asked in dev, holdout and test."""
    found: list[str] = []
    for split in ("dev", "holdout", "test"):
        path = vault / f"{split}.jsonl"
        if path.is_file():
            with path.open(encoding="utf-8") as lines:
                found += [json.loads(line)["prompt"][-1]["content"] for line in lines]
    return found
