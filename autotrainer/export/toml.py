"""Plain values as TOML: what recipe.toml needs of it, null left out (TOML has none)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(value: Mapping[str, Any]) -> str:
    """The document of a mapping of plain values, mappings, and lists of either."""
    return "\n".join(_table(value, ())).lstrip("\n") + "\n"


def _table(value: Mapping[str, Any], where: tuple[str, ...]) -> list[str]:
    lines, later = [], []
    for key, item in value.items():
        name = (*where, _key(key))
        if isinstance(item, Mapping):
            later += ["", f"[{'.'.join(name)}]", *_table(item, name)] if item else []
        elif isinstance(item, list) and item and all(isinstance(one, Mapping) for one in item):
            for one in item:
                later += ["", f"[[{'.'.join(name)}]]", *_table(one, name)]
        elif item is not None:
            lines.append(f"{_key(key)} = {_value(item)}")
    return lines + later


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value if item is not None) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None) + "}"
    return repr(value)
