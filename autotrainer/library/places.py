"""Where skills of one's own are found without being asked for: the user's config folder and the project's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_config_path

from autotrainer.resources import tree


def skill_dirs(given: Sequence[Path] = (), project: Path | None = None) -> tuple[Path, ...]:
    """The folders of skills beside the shipped ones, each once.

    `skills/` of the user's config folder, `skills/` of the project (default: the current folder), then those
    that were given. A folder that is not there, or holds no skill, is left out unless it was given.
    """
    shipped = tree("skills").resolve()
    own = [user_config_path("autotrainer") / "skills", (project or Path.cwd()) / "skills"]
    found = [path.resolve() for path in own if any(path.glob("*/SKILL.md"))]
    found += [path.expanduser().resolve() for path in given]
    return tuple(dict.fromkeys(path for path in found if path != shipped))
