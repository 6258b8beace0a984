"""Loads skills.

Folders with a SKILL.md and a skill.py, from the package, extra folders and installed plugins.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autotrainer.errors import SkillError
from autotrainer.library.skill import LoadedSkill, Skill, SkillCard
from autotrainer.resources import tree

ENTRY_POINT_GROUP = "autotrainer.skills"
PACKAGE = "autotrainer_skills"
_METHODS = ("applies", "propose", "predicts")


class FrontMatter(BaseModel):
    """The block between `---` lines at the top of a SKILL.md.

    All values are text; lists are lists of text.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")
    name: str = Field(min_length=1)
    paper: str = Field(min_length=1)
    """Where it was published: `arXiv:NNNN.NNNNN`, another citation, or `none` for a rule of thumb."""
    family: str = Field(min_length=1)
    kind: Literal["intervention", "rule"]
    """An intervention is a published method; a rule is what practitioners do."""
    treats: tuple[str, ...] = Field(min_length=1)
    """Kinds of findings it answers; `healthy` for runs with nothing wrong."""
    requires: tuple[str, ...] = ()
    """What it needs beside knobs, as `hook:<point>`."""
    cost: Literal["none", "low", "medium", "high"]
    """Device time of a step against the same step without it: equal, up to 10 %, up to twice, more."""
    badge: Literal["untested", "checked", "trialled"]
    """What stands behind it here: nothing, tests of its mechanics, full trials."""


def load_skills(dirs: Sequence[Path] = ()) -> dict[str, LoadedSkill]:
    """Every skill by its id, sorted: the shipped ones, those of `dirs`, those of installed plugins.

    A plugin declares an entry point of the group `autotrainer.skills` that names a package whose folder holds
    skill folders.

    Raises:
        SkillError: a skill is broken (the message names its folder), two have one id (it names both), or a
            folder of `dirs` does not exist.
    """
    found: dict[str, LoadedSkill] = {}
    for folder in _folders(dirs):
        skill = load_skill(folder)
        if skill.card.id in found:
            raise SkillError(
                f"two skills have the id {skill.card.id!r}: {found[skill.card.id].card.folder} and "
                f"{skill.card.folder}; rename one"
            )
        found[skill.card.id] = skill
    return dict(sorted(found.items()))


def load_skill(folder: Path) -> LoadedSkill:
    """The skill of one folder.

    Raises:
        SkillError: something in the folder is missing or broken; the message names the folder.
    """
    card = read_card(folder)
    module = _execute(folder)
    made = getattr(module, "Skill", None)
    if not isinstance(made, type):
        raise SkillError(f"{folder}: skill.py must define a class named Skill")
    missing = [name for name in _METHODS if not callable(getattr(made, name, None))]
    if missing:
        raise SkillError(
            f"{folder}: class Skill lacks {', '.join(missing)}; it must have {', '.join(_METHODS)}"
        )
    try:
        code: Skill = made()
    except Exception as error:  # a plugin's own code may raise anything
        raise SkillError(
            f"{folder}: Skill() failed ({type(error).__name__}: {error}); it takes no arguments"
        ) from error
    return LoadedSkill(card, code)


def read_card(folder: Path) -> SkillCard:
    """The card of a skill's folder, without running its code.

    Raises:
        SkillError: SKILL.md is missing, its front matter breaks a rule, or the folder's name does not match
        the id.
    """
    text, body = _front_matter(folder)
    try:
        values = yaml.load(text, Loader=yaml.BaseLoader)
        matter = FrontMatter.model_validate(values)
    except yaml.YAMLError as error:
        raise SkillError(f"{folder}: the front matter of SKILL.md is not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "front matter"
        raise SkillError(
            f"{folder}: {where} = {first.get('input')!r} is not allowed in SKILL.md: {first['msg']}"
        ) from error
    if folder.name != matter.id.replace("-", "_"):
        raise SkillError(
            f"{folder}: the id {matter.id!r} belongs in a folder named {matter.id.replace('-', '_')!r}"
        )
    hook = folder / "hook.py"
    return SkillCard(
        id=matter.id,
        name=matter.name,
        paper=matter.paper,
        family=matter.family,
        kind=matter.kind,
        treats=matter.treats,
        requires=matter.requires,
        cost=matter.cost,
        badge=matter.badge,
        folder=str(folder),
        body=body,
        hook=str(hook) if hook.is_file() else None,
    )


def _folders(dirs: Sequence[Path]) -> Iterator[Path]:
    yield from _skill_folders(tree("skills"))
    for path in (*dirs, *_plugin_folders()):
        if not path.is_dir():
            raise SkillError(f"there is no folder of skills {path}")
        yield from _skill_folders(path)


def _skill_folders(parent: Path) -> list[Path]:
    resolved = parent.resolve()
    return sorted(
        path
        for path in resolved.iterdir()
        if path.is_dir() and ((path / "SKILL.md").exists() or (path / "skill.py").exists())
    )


def _plugin_folders() -> Iterable[Path]:
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        try:
            module = entry.load()
        except Exception as error:  # an installed plugin may raise anything at import
            raise SkillError(
                f"the plugin {entry.name!r} ({entry.value}) cannot be imported: {error}"
            ) from error
        paths = getattr(module, "__path__", None)
        if paths is None:
            raise SkillError(
                f"the plugin {entry.name!r} ({entry.value}) is not a package that holds skill folders"
            )
        yield from (Path(path) for path in paths)


def _front_matter(folder: Path) -> tuple[str, str]:
    try:
        text = (folder / "SKILL.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SkillError(f"{folder}: there is no SKILL.md") from None
    except UnicodeDecodeError as error:
        raise SkillError(f"{folder}: SKILL.md is not UTF-8: {error}") from error
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in [line.strip() for line in lines[1:]]:
        raise SkillError(f"{folder}: SKILL.md must begin with a front matter between two lines of ---")
    end = next(index for index, line in enumerate(lines[1:], start=1) if line.strip() == "---")
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]).strip()


def _execute(folder: Path) -> ModuleType:
    """skill.py as autotrainer_skills.<folder>.skill; its package comes first, for relative imports."""
    root = sys.modules.setdefault(PACKAGE, ModuleType(PACKAGE))
    root.__path__ = []
    if not (folder / "skill.py").is_file():
        raise SkillError(f"{folder}: there is no skill.py")
    if (folder / "__init__.py").is_file():
        _import(f"{PACKAGE}.{folder.name}", folder / "__init__.py", folder)
    return _import(f"{PACKAGE}.{folder.name}.skill", folder / "skill.py", folder)


def _import(name: str, path: Path, folder: Path) -> ModuleType:
    search = [str(folder)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=search)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a plugin's own code may raise anything
        del sys.modules[name]
        raise SkillError(
            f"{folder}: {path.name} cannot be imported ({type(error).__name__}: {error})"
        ) from error
    return module
