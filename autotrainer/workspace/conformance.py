"""Hook conformance: whether the code a recipe names has the shape of its hook point, without running it."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from autotrainer.recipe.recipe import Stage

METHODS: Mapping[str, tuple[str, ...]] = {
    "sampler": ("choose",),
    "rollouts": ("draw",),
    "rewards": ("components",),
    "advantages": ("group", "tokens"),
    "loss": ("term", "objective"),
    "callbacks": ("after_step",),
}
"""The methods of each point; a hook has at least one of them (harness/hooks/api.py)."""


def check_stage(stage: Stage, files: Mapping[str, str]) -> list[str]:
    """What is wrong with a stage's hooks and rewards in these files; those elsewhere are not looked at."""
    found: list[str] = []
    for hook in stage.hooks:
        path, _, name = hook.ref.partition(":")
        if (text := files.get(f"harness/{path}")) is not None:
            found += _hook(hook.ref, hook.point, text, name, set(hook.params))
    for reward in stage.rewards:
        path, _, name = reward.ref.partition(":")
        if (text := files.get(f"harness/{path}")) is not None:
            found += _reward(reward.ref, text, name)
    return found


def check_diagnostic(path: str, text: str) -> list[str]:
    """What is wrong with a diagnostic's `check(rows, rollouts)`."""
    function = _named(text, "check", ast.FunctionDef)
    if not isinstance(function, ast.FunctionDef):
        return [f"{path} has no function check(rows, rollouts)"]
    if len(function.args.args) != 2:
        return [f"{path}: check takes rows and rollouts, not {len(function.args.args)} arguments"]
    return []


def _hook(ref: str, point: str, text: str, name: str, params: set[str]) -> list[str]:
    node = _named(text, name, ast.ClassDef)
    if not isinstance(node, ast.ClassDef):
        return [f"{ref}: there is no class {name}"]
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    wanted = [method for method in METHODS[point] if method in methods]
    if not wanted:
        return [f"{ref}: a {point} hook has the method {' or '.join(METHODS[point])}(self, inputs)"]
    found = [
        f"{ref}: {method} takes (self, inputs)" for method in wanted if len(methods[method].args.args) != 2
    ]
    constructor = methods.get("__init__")
    decorated = bool(node.decorator_list) or bool(node.bases)
    if constructor is not None and constructor.args.kwarg is None:
        names = {arg.arg for arg in (*constructor.args.args[1:], *constructor.args.kwonlyargs)}
        found += [f"{ref}: the constructor has no parameter {extra!r}" for extra in sorted(params - names)]
    elif constructor is None and params and not decorated:
        found.append(f"{ref}: params {', '.join(sorted(params))} are given and there is no constructor")
    return found


def _reward(ref: str, text: str, name: str) -> list[str]:
    node = _named(text, name, ast.FunctionDef)
    if not isinstance(node, ast.FunctionDef):
        return [f"{ref}: there is no function {name}"]
    if node.args.kwarg is None:
        return [f"{ref}: a reward takes what it does not need as **_"]
    return []


def _named(text: str, name: str, kind: type) -> ast.AST | None:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    return next((item for item in body if isinstance(item, kind) and getattr(item, "name", "") == name), None)
