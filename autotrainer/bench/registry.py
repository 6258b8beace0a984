"""Benchmarks by the name that `autotrainer bench` takes: every module beside this one is one."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from typing import cast

from autotrainer.bench.base import Benchmark
from autotrainer.errors import ConfigError

_INFRASTRUCTURE = frozenset({"base", "integrity_nodes", "public_logs", "record", "registry"})
_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """The names of all benchmarks; packages and the modules of the registry itself are none."""
    modules = [
        module.name for module in pkgutil.iter_modules([str(_FOLDER)]) if not module.ispkg and module.name
    ]
    return tuple(sorted(name.replace("_", "-") for name in modules if name not in _INFRASTRUCTURE))


def summary(name: str) -> str:
    """The first line of a benchmark's docstring, without importing it."""
    source = (_FOLDER / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def check_name(name: str) -> str:
    """The name itself.

    Raises:
        ConfigError: there is no such benchmark; the message lists the known ones.
    """
    if name not in names():
        raise ConfigError(f"unknown benchmark {name!r}: known are {', '.join(names())}")
    return name


def benchmark(name: str) -> Benchmark:
    """The benchmark of that name, imported.

    Raises:
        ConfigError: there is none.
    """
    module = importlib.import_module(f"autotrainer.bench.{check_name(name).replace('-', '_')}")
    return cast("Benchmark", module)
