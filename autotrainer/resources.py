"""Where the trees are that ship with the package and are never imported by it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from autotrainer.errors import ConfigError

TreeName = Literal["harness", "sandboxes", "skills", "experiments"]

_PACKAGE = Path(__file__).resolve().parent


def tree(name: TreeName) -> Path:
    """The folder of a shipped tree: `_bundle/<name>` in a wheel, the sibling folder in a checkout."""
    bundled = _PACKAGE / "_bundle" / name
    if bundled.is_dir():
        return bundled
    sibling = _PACKAGE.parent / name
    if sibling.is_dir():
        return sibling
    raise FileNotFoundError(
        f"the tree {name!r} is neither at {bundled} nor at {sibling}: reinstall autotrainer"
    )


def model_names() -> tuple[str, ...]:
    """Names of the models that ship with the package."""
    return tuple(sorted(path.parent.name for path in (_PACKAGE / "models").glob("*/config.json")))


def resolve_model(name: str) -> str:
    """The folder or hub id behind a model's name: shipped model, local folder or `owner/name`.

    Raises:
        ConfigError: the name is none of the three.
    """
    if name in model_names():
        return str(_PACKAGE / "models" / name)
    path = Path(name).expanduser()
    if (path / "config.json").is_file():
        return str(path.resolve())
    if path.exists() or name.startswith((".", "/", "~")) or name.count("/") != 1:
        known = ", ".join(model_names())
        raise ConfigError(
            f"unknown model {name!r}: give a shipped model ({known}), a folder with config.json, "
            "or a hub id owner/name"
        )
    return name
