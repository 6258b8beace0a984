"""Source code taken out of the harness with all that it needs, so that a script can have it in one file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autotrainer.errors import ConfigError

TREE = "harness"
OURS = ("autotrainer", "sandboxes", "skills")
_BUILTINS = frozenset(dir(builtins))
Key = tuple[str, str]
"""A module and a name that it defines."""


@dataclass
class Inliner:
    """Collects definitions of a workspace's harness, each once, what is needed before what needs it.

    Docstrings and annotations of functions are left out; a name that two modules define differently gets the
    module's name behind it.
    """

    root: Path
    """The folder that has harness/."""
    imports: set[str] = field(default_factory=set)
    """Import statements of other people's modules."""
    _modules: dict[str, _Module] = field(default_factory=dict)
    _order: list[Key] = field(default_factory=list)
    _names: dict[Key, str] = field(default_factory=dict)
    _methods: dict[Key, frozenset[str]] = field(default_factory=dict)

    def add(self, module: str, name: str, methods: frozenset[str] = frozenset()) -> str:
        """Take a definition in, with all that it uses, and return its name in the script.

        Args:
            module: `harness.tasks.arithmetic`.
            name: a class, function or constant of it.
            methods: of a class, those that are called from outside; others are left out. Empty keeps all.

        Raises:
            ConfigError: there is no such name, or it uses what cannot be taken out.
        """
        key = self._origin(module, name)
        if key in self._names:
            return self._names[key]
        taken = set(self._names.values())
        self._names[key] = name if name not in taken else f"{name.lstrip('_')}_{key[0].rpartition('.')[2]}"
        self._methods[key] = methods
        own = self._module(key[0])
        for used in sorted(_used(self._node(key))):
            if used in own.definitions or used in own.ours:
                self.add(*self._origin(key[0], used))
            elif used in own.others:
                if own.others[used].split()[1].partition(".")[0] in OURS:
                    raise ConfigError(
                        f"{key[0]}.{key[1]} needs {own.others[used]!r}, which a script cannot have"
                    )
                self.imports.add(own.others[used])
            elif used not in _BUILTINS and used not in _bound(own.definitions[key[1]]):
                raise ConfigError(f"{key[0]}.{key[1]} uses {used!r}, which is not found in {own.path}")
        self._order.append(key)
        return self._names[key]

    def text(self) -> str:
        """The definitions as source code."""
        parts = []
        for key in self._order:
            names = {
                used: self._names[self._origin(key[0], used)]
                for used in _used(self._node(key))
                if used in self._module(key[0]).definitions or used in self._module(key[0]).ours
            }
            node = _Renamed({**names, key[1]: self._names[key]}).visit(self._node(key))
            parts.append(ast.unparse(ast.fix_missing_locations(node)))
        return "\n".join(parts)

    def _origin(self, module: str, name: str) -> Key:
        own = self._module(module)
        if name in own.definitions:
            return module, name
        if name in own.ours:
            return self._origin(*own.ours[name])
        raise ConfigError(f"{own.path} has no {name!r} that a script could have a copy of")

    def _node(self, key: Key) -> ast.stmt:
        """The definition without docstrings and annotations, its class without methods nobody calls."""
        node = ast.parse(ast.unparse(self._module(key[0]).definitions[key[1]])).body[0]
        if isinstance(node, ast.ClassDef) and self._methods.get(key):
            kept = _reachable(node, self._methods[key])
            node.body = [s for s in node.body if not isinstance(s, ast.FunctionDef) or s.name in kept]
            if _stands_alone(node):
                node.bases = []
        stripped: ast.stmt = _Stripped().visit(node)
        return stripped

    def _module(self, name: str) -> _Module:
        if name not in self._modules:
            self._modules[name] = _Module.read(self.root, name)
        return self._modules[name]


@dataclass(frozen=True, slots=True)
class _Module:
    path: Path
    definitions: dict[str, ast.stmt]
    ours: dict[str, Key]
    others: dict[str, str]

    @classmethod
    def read(cls, root: Path, name: str) -> _Module:
        base = root.joinpath(*name.split("."))
        path = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
        if not path.is_file():
            raise ConfigError(f"{base}.py is not there: the script needs code of it")
        module = cls(path, {}, {}, {})
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for defined in _defined(node):
                module.definitions[defined] = node
            module._imported(node)
        return module

    def _imported(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.others[alias.asname or alias.name.partition(".")[0]] = ast.unparse(ast.Import([alias]))
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__" and node.module:
            for alias in node.names:
                if node.module.partition(".")[0] == TREE:
                    self.ours[alias.asname or alias.name] = (node.module, alias.name)
                else:
                    line = ast.unparse(ast.ImportFrom(node.module, [alias], 0))
                    self.others[alias.asname or alias.name] = line


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _used(node: ast.AST) -> set[str]:
    """Names that are read; the annotations of fields are text in the script and do not count."""
    names = set()
    for child in _walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
            names.add(child.id)
    return names - _bound(node)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, value in ast.iter_fields(node):
        if name == "annotation":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _bound(node: ast.AST) -> set[str]:
    """Names that the code binds itself: arguments, variables, imports inside functions."""
    names = set()
    for child in ast.walk(node):
        if isinstance(child, ast.arg):
            names.add(child.arg)
        elif isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load) and child is not node:
            names.add(child.id)
        elif isinstance(child, ast.FunctionDef | ast.ClassDef):
            names.add(child.name)
        elif isinstance(child, ast.alias):
            names.add(child.asname or child.name.partition(".")[0])
        elif isinstance(child, ast.ExceptHandler) and child.name:
            names.add(child.name)
    return names


def _reachable(node: ast.ClassDef, wanted: frozenset[str]) -> set[str]:
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    kept = {name for name in methods if name in wanted or name in ("__init__", "__post_init__")}
    left = list(kept)
    while left:
        for child in ast.walk(methods[left.pop()]):
            if isinstance(child, ast.Attribute) and child.attr in methods and child.attr not in kept:
                kept.add(child.attr)
                left.append(child.attr)
    return kept


def _stands_alone(node: ast.ClassDef) -> bool:
    """Whether the methods that are left use nothing of a base class."""
    own = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    own |= {name for item in node.body for name in _defined(item)}
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id == "super":
            return False
        if (
            isinstance(child, ast.Attribute)
            and isinstance(child.value, ast.Name)
            and child.value.id == "self"
        ):
            if isinstance(child.ctx, ast.Load) and child.attr not in own:
                return False
            own.add(child.attr)
    return True


class _Stripped(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        node.body = _without_docstrings(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # The fields of a dataclass keep their annotations, so no visit of AnnAssign here.
        node.body = [
            self.visit(item) if not isinstance(item, ast.AnnAssign) else item
            for item in _without_docstrings(node.body)
        ]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node


def _without_docstrings(body: list[ast.stmt]) -> list[ast.stmt]:
    kept = [
        item
        for item in body
        if not (
            isinstance(item, ast.Expr)
            and isinstance(item.value, ast.Constant)
            and isinstance(item.value.value, str)
        )
    ]
    return kept or [ast.Pass()]


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = {old: new for old, new in names.items() if old != new}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.name = self._names.get(node.name, node.name)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.name = self._names.get(node.name, node.name)
        return node
