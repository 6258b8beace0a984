"""A training script's reward functions on their own: importing the script would start its training."""

from __future__ import annotations

import ast
from pathlib import Path

_TRAINING = frozenset(
    {"trl", "datasets", "transformers", "peft", "accelerate", "argparse", "wandb", "vllm", "unsloth"}
)


def reward_source(path: Path) -> str:
    """The script's imports, functions, classes and plain constants; nothing that trains or loads data.

    Raises:
        SyntaxError: it is not Python.
    """
    text = path.read_text(encoding="utf-8")
    kept = [node for node in ast.parse(text).body if _belongs(node)]
    parts = [ast.get_source_segment(text, node) or ast.unparse(node) for node in kept]
    return f'"""The reward functions of {path.name}."""\n\n' + "\n\n".join(parts) + "\n"


def _belongs(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return not any(alias.name.split(".")[0] in _TRAINING for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] not in _TRAINING
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return True
    return isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _plain(node.value)


def _plain(node: ast.expr) -> bool:
    """Whether an expression is of constants, or a pattern compiled from one."""
    if isinstance(node, ast.Call):
        called = node.func
        pattern = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)
        return pattern and ast.unparse(called) == "re.compile"
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
