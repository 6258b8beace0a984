"""The static screen: what edited code says that it does, before it runs anywhere.

Covered: syntax, undefined names (pyflakes), imports beyond an allow-list, the built-ins and attributes
through which Python reaches files, processes, the network, the interpreter or other modules, reads of hidden
data columns. Not covered: code that hides what it does well enough. The sandbox of the job is the barrier;
the screen finds honest mistakes early and keeps the reasons readable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from io import StringIO

_STANDARD = frozenset(
    [
        "__future__",
        "abc",
        "array",
        "bisect",
        "collections",
        "copy",
        "dataclasses",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
        "numbers",
        "operator",
        "random",
        "re",
        "statistics",
        "string",
        "textwrap",
        "typing",
        "unicodedata",
        "zlib",
        "hashlib",
        "time",
    ]
)
_IN_JOBS = frozenset({"torch", "numpy"})
_OWN = ("harness.hooks", "harness.rewards")
_NEVER_OWN = ("harness.hooks.sampler_mismatch", "harness.rewards.own")
BUILTINS = frozenset(
    [
        "open",
        "exec",
        "eval",
        "compile",
        "__import__",
        "globals",
        "locals",
        "vars",
        "input",
        "breakpoint",
        "exit",
        "quit",
        "memoryview",
        "help",
        "setattr",
        "delattr",
        "__builtins__",
        "__loader__",
        "__spec__",
    ]
)
ATTRIBUTES = frozenset(
    [
        "os",
        "sys",
        "io",
        "subprocess",
        "socket",
        "shutil",
        "pathlib",
        "builtins",
        "importlib",
        "ctypes",
        "inspect",
        "gc",
        "signal",
        "threading",
        "multiprocessing",
        "load",
        "save",
        "fromfile",
        "tofile",
        "memmap",
        "loadtxt",
        "savetxt",
        "genfromtxt",
        "savez",
        "hub",
        "jit",
        "ops",
        "library",
        "cpp_extension",
        "distributed",
        "package",
        "_C",
        "system",
        "popen",
        "environ",
        "spawn",
        "fork",
        "urlopen",
        "serialization",
        "load_library",
        "frombuffer_file",
        "DataSource",
        "lib",
        "f_globals",
        "f_locals",
        "f_back",
        "gi_frame",
        "tb_frame",
    ]
)
_DUNDERS = frozenset(
    [
        "__init__",
        "__call__",
        "__len__",
        "__iter__",
        "__next__",
        "__getitem__",
        "__contains__",
        "__repr__",
        "__eq__",
        "__hash__",
        "__post_init__",
        "__name__",
        "__doc__",
        "__all__",
        "__slots__",
        "__enter__",
        "__exit__",
        "__lt__",
        "__add__",
        "__mul__",
        "__sub__",
        "__truediv__",
    ]
)


def screen(path: str, text: str) -> list[str]:
    """Why a file is refused; empty where it is not. Each reason has the line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [f"{path} does not parse: {error}"]
    found = [*_lint(path, text), *(f"{path}:{line}: {why}" for line, why in _walk(path, tree))]
    return list(dict.fromkeys(found))


def syntax(path: str, text: str) -> list[str]:
    """Why a file does not parse or has names that are not defined; empty where neither."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [f"{path} does not parse: {error}"]
    return _lint(path, text)


def _lint(path: str, text: str) -> list[str]:
    from pyflakes.api import check
    from pyflakes.reporter import Reporter

    warnings, errors = StringIO(), StringIO()
    check(text, path, Reporter(warnings, errors))
    lines = (warnings.getvalue() + errors.getvalue()).splitlines()
    harmless = (
        "imported but unused",
        "unable to detect undefined names",
        "is assigned to but never used",
        "f-string",
    )
    return [line for line in lines if not any(word in line for word in harmless)]


def _walk(path: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _import(line, path, alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from _import(line, path, module)
            for alias in node.names:
                if alias.name in ATTRIBUTES or alias.name == "*":
                    yield line, f"{alias.name} may not be imported from {module}"
        elif isinstance(node, ast.Name) and node.id in BUILTINS:
            yield (
                line,
                f"{node.id} may not be used: no files, no processes, no code that is made while it runs",
            )
        elif isinstance(node, ast.Attribute):
            if node.attr in ATTRIBUTES:
                yield line, f".{node.attr} may not be used: no files, processes, network or interpreter"
            elif node.attr.startswith("__") and node.attr not in _DUNDERS:
                yield line, f".{node.attr} may not be used"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "hasattr")
        ):
            if len(node.args) < 2 or not _plain(node.args[1]):
                yield line, "getattr takes a name that is written out and begins with a letter"
        elif isinstance(node, ast.Name | ast.FunctionDef) and _verifier(
            getattr(node, "id", getattr(node, "name", ""))
        ):
            yield line, "the name accuracy is the verifier's"


def _plain(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and value[:1].isalpha() and value not in ATTRIBUTES


def _verifier(name: str) -> bool:
    return name == "verifier"


def _import(line: int, path: str, module: str) -> Iterator[tuple[int, str]]:
    top = module.partition(".")[0]
    if top in _STANDARD:
        return
    if path.startswith("diagnostics/"):
        if top != "numpy":
            yield (
                line,
                f"{module} may not be imported: a diagnostic has the standard library's pure parts and numpy",
            )
        return
    if top in _IN_JOBS or module == "harness":
        if module.split(".")[-1] in ATTRIBUTES or module == "harness":
            yield line, f"{module} may not be imported"
        return
    if module.startswith(_OWN) and module not in _NEVER_OWN:
        return
    yield (
        line,
        f"{module} may not be imported: allowed are torch, numpy, harness.hooks.api and "
        "pure standard modules",
    )
