"""A TRL training script, read from its syntax tree: nothing of it is run."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from autotrainer.errors import ConfigError
from autotrainer.importing.datasets import take_dataset
from autotrainer.importing.found import Found
from autotrainer.importing.settings import take_trl

CONFIGS = ("GRPOConfig",)
TRAINERS = ("GRPOTrainer",)
_WIRES = ("args", "train_dataset", "model", "reward_funcs", "processing_class", "tokenizer", "eval_dataset")


def read_script(path: Path) -> Found:
    """What a script with a GRPOTrainer says.

    Raises:
        ConfigError: it is not Python, or has no GRPOTrainer.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not Python: {error}") from error
    found, names = Found(path), constants(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    trainers = [call for call in calls if called(call) in TRAINERS]
    if not trainers:
        others = sorted({name for call in calls if (name := called(call)).endswith("Trainer")})
        raise ConfigError(f"{path} has no GRPOTrainer(...); it has {', '.join(others) or 'no trainer'}")
    if len(trainers) > 1:
        found.not_understood("GRPOTrainer", f"{len(trainers)} of them: the first one counts")
    settings: dict[str, Any] = {}
    for call in calls:
        if called(call) in CONFIGS:
            settings |= _keywords(call, names, found)
    take_trl(settings, found)
    _take_trainer(trainers[0], names, found, tree, path)
    _take_data(calls, names, found)
    return found


def called(call: ast.Call) -> str:
    """The last part of what is called: `f` of `a.b.f(...)`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def constants(tree: ast.Module) -> dict[str, Any]:
    """Names that are assigned a plain value once, at any depth."""
    found: dict[str, Any] = {}
    twice: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in found:
                twice.add(name)
            try:
                found[name] = literal(node.value, found)
            except ValueError:
                found.pop(name, None)
        elif isinstance(node, ast.Call) and called(node) == "add_argument" and node.args:
            default = next((key.value for key in node.keywords if key.arg == "default"), None)
            if isinstance(node.args[0], ast.Constant) and isinstance(default, ast.Constant):
                found[f"args.{str(node.args[0].value).lstrip('-').replace('-', '_')}"] = default.value
    return {name: value for name, value in found.items() if name not in twice}


def literal(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of an expression of constants, known names and arithmetic.

    Raises:
        ValueError: it depends on more than those.
    """
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        key = f"args.{node.attr}"
        if key in names:
            return names[key]
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.FloorDiv
    ):
        left, right = literal(node.left, names), literal(node.right, names)
        if all(isinstance(side, int | float) for side in (left, right)):
            operations = {"Add": left.__add__, "Sub": left.__sub__, "Mult": left.__mul__}
            name = type(node.op).__name__
            if name in operations:
                value = operations[name](right)
                return value if value is not NotImplemented else float(left) * float(right)
            if right != 0:
                return left / right if name == "Div" else left // right
    return ast.literal_eval(node)


def _keywords(call: ast.Call, names: dict[str, Any], found: Found) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            found.not_understood(f"{called(call)}(**...)", ast.unparse(keyword.value))
            continue
        try:
            values[keyword.arg] = literal(keyword.value, names)
        except (ValueError, TypeError):
            if keyword.arg not in ("output_dir", "run_name"):
                found.not_understood(keyword.arg, ast.unparse(keyword.value))
    return values


def _take_trainer(call: ast.Call, names: dict[str, Any], found: Found, tree: ast.Module, path: Path) -> None:
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if "model" in given:
        found.values["model"] = _model(given["model"], names, tree, found)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    rewards = given.get("reward_funcs")
    listed = rewards.elts if isinstance(rewards, ast.List | ast.Tuple) else [rewards] if rewards else []
    for one in listed:
        if isinstance(one, ast.Name) and one.id in functions:
            found.rewards.append(f"{path.resolve()}:{one.id}")
        else:
            found.not_understood("reward_funcs", ast.unparse(one))
    for name, value in given.items():
        if name not in _WIRES:
            found.not_understood(f"GRPOTrainer.{name}", ast.unparse(value))


def _model(node: ast.expr, names: dict[str, Any], tree: ast.Module, found: Found) -> Any:
    """The model's name: given as text, or the first argument of the from_pretrained behind a variable."""
    try:
        value = literal(node, names)
        if isinstance(value, str):
            return value
    except ValueError:
        pass
    if isinstance(node, ast.Name):
        for other in ast.walk(tree):
            if (
                isinstance(other, ast.Assign)
                and isinstance(other.targets[0], ast.Name)
                and other.targets[0].id == node.id
                and isinstance(other.value, ast.Call)
                and called(other.value) == "from_pretrained"
                and other.value.args
            ):
                return _model(other.value.args[0], names, tree, found)
    found.not_understood("model", ast.unparse(node))
    return None


def _take_data(calls: list[ast.Call], names: dict[str, Any], found: Found) -> None:
    for call in calls:
        if called(call) != "load_dataset":
            continue
        try:
            arguments = [literal(argument, names) for argument in call.args]
            options = {key.arg: literal(key.value, names) for key in call.keywords if key.arg}
        except ValueError:
            found.not_understood("load_dataset", ast.unparse(call))
            continue
        take_dataset(arguments, options, found)
