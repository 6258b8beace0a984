"""What a node's edits (hooks and rewards) must not do: found by reading them, nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

FORBIDDEN_MODULES = {
    "subprocess": "starts programs",
    "ctypes": "reaches around Python",
    "socket": "uses the network",
    "requests": "uses the network",
    "urllib": "uses the network",
    "httpx": "uses the network",
    "multiprocessing": "starts processes",
    "importlib": "imports by name",
    "gc": "looks for objects of others",
    "builtins": "replaces built-in functions",
}
FORBIDDEN_CALLS = {
    "eval": "runs text",
    "exec": "runs text",
    "__import__": "imports by name",
    "system": "starts programs",
    "popen": "starts programs",
    "kill": "signals processes",
    "_getframe": "looks into its callers",
    "currentframe": "looks into its callers",
    "stack": "looks into its callers",
    "from_pretrained": "loads another model",
    "load_state_dict": "replaces weights",
    "load_file": "replaces weights",
}
_PLACES = re.compile(
    r"(vault|holdout|journal\.jsonl|mlflow|result\.json|metrics\.jsonl|heartbeat\.json|/evals?/|"
    r"checkpoint\.json|dev\.jsonl|test\.jsonl|job\.json|control(-ack)?\.json|/proc/)"
)
_CLOCKS = ("time", "monotonic", "perf_counter", "time_ns")
MIN_COPIED = 3
"""Judged items that have to stand in an edit before it counts as copied: one may be a docstring's example."""


def edit_findings(files: Mapping[str, str]) -> list[str]:
    """What the edits of a node reach for that they must not; empty where they are clean.

    Args:
        files: the edited files, by path in the workspace.
    """
    found: list[str] = []
    for path, source in sorted(files.items()):
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            found.append(f"{path}: not Python (line {error.lineno})")
            continue
        found += [f"{path} line {line}: {text}" for line, text in _scan(tree)]
    return found


def _scan(tree: ast.Module) -> Iterator[tuple[int, str]]:
    frozen = dict(_frozen_names(tree))
    documentation = set(_docstrings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        elif isinstance(node, ast.Call):
            yield from _call(node, frozen)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from _target(target, frozen)
        elif isinstance(node, ast.Attribute) and node.attr in (
            "__globals__",
            "__code__",
            "__subclasses__",
            "f_back",
        ):
            yield node.lineno, f"{node.attr} looks into code of others"
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documentation
            and (place := _PLACES.search(node.value))
        ):
            yield node.lineno, f"names {place[0]!r}, which a job has no business with"


def _docstrings(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)


def _frozen_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names bound to frozen modules of the harness, or to the clock and the interpreter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                if root in ("harness", "sandboxes", "time", "sys", "trl", "transformers"):
                    yield alias.asname or root, alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
            "harness",
            "sandboxes",
            "trl",
        ):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str]]:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    for name in names:
        root = name.split(".")[0]
        if root in FORBIDDEN_MODULES:
            yield node.lineno, f"import {name}: {FORBIDDEN_MODULES[root]}"
        elif name.startswith(("harness.tasks", "harness.evaluat", "sandboxes")):
            yield node.lineno, f"import {name}: tasks and verifiers are the judge's"


def _call(node: ast.Call, frozen: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if (
        name in FORBIDDEN_CALLS
        and not (name == "eval" and owner is not None)
        and not _tensor_stack(name, owner)
    ):
        yield node.lineno, f"{name}(...): {FORBIDDEN_CALLS[name]}"
    elif name in ("open", "write_text", "write_bytes", "read_text", "read_bytes"):
        yield node.lineno, f"{name}(...): hooks and rewards read and write no files"
    elif name in ("setattr", "delattr") and node.args and _root(node.args[0]) in frozen:
        yield node.lineno, f"{name} on {frozen[_root(node.args[0])]}: frozen"


def _tensor_stack(name: str, owner: ast.expr | None) -> bool:
    return name == "stack" and not (isinstance(owner, ast.Name) and owner.id == "inspect")


def _target(target: ast.expr, frozen: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    root = _root(target)
    if isinstance(target, ast.Attribute | ast.Subscript) and root in frozen:
        if frozen[root] == "time" and isinstance(target, ast.Attribute) and target.attr in _CLOCKS:
            yield target.lineno, f"replaces time.{target.attr}: the clock is the judge's"
        else:
            yield target.lineno, f"assigns into {frozen[root]}: frozen"


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def copied_items(files: Mapping[str, str], questions: Iterable[str]) -> list[str]:
    """Judged questions that stand word for word as strings in the edits (or in any other texts)."""
    texts: set[str] = set()
    for source in files.values():
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        texts |= {
            node.value.strip()
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    whole = [text for text in texts if len(text) > 60]
    found = []
    for question in questions:
        asked = question.strip()
        if asked in texts or (len(asked) > 20 and any(asked in text for text in whole)):
            found.append(asked)
    return found
