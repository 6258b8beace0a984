"""An import as study.toml: what was understood as settings, what was not as a comment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotrainer.errors import ConfigError
from autotrainer.importing.configs import read_yaml
from autotrainer.importing.found import Found
from autotrainer.importing.rewards import reward_source
from autotrainer.importing.script import read_script


def read_file(path: Path) -> Found:
    """What a training script or config says, by its suffix.

    Raises:
        ConfigError: the file is missing or of no known kind.
    """
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    if path.suffix == ".py":
        found = read_script(path)
    elif path.suffix in (".yaml", ".yml"):
        found = read_yaml(path)
    else:
        raise ConfigError(f"{path}: only .py, .yaml and .yml files can be imported")
    if len(found.rewards) > 1:
        for extra in found.rewards[1:]:
            found.not_understood(
                "reward_funcs", f"{extra.rpartition(':')[2]}: a study has one reward of its own"
            )
    if found.rewards:
        found.values["reward"] = found.rewards[0]
    found.values = {key: value for key, value in found.values.items() if value is not None}
    return found


def write_study(found: Found, output: Path) -> None:
    """Write study.toml and, where a script brings its reward, that alone beside it."""
    from autotrainer.files import write_text

    reward = found.values.get("reward")
    if reward is not None and found.source.suffix == ".py":
        own = output.with_name(f"{output.stem}_reward.py")
        write_text(own, reward_source(found.source))
        found.values["reward"] = f"{own.resolve()}:{reward.rpartition(':')[2]}"
        found.remark(f"the reward functions alone are in {own.name}; read them through")
    write_text(output, study_toml(found))


def study_toml(found: Found) -> str:
    """The text of a study.toml; budget and what is missing come from the command line."""
    from autotrainer.study.config import _toml

    lines = [f"# imported from {found.source.name}"]
    lines += [f"# {text}" for text in found.remarks]
    if found.unknown:
        lines.append("# not understood:")
        lines += [f"#   {name} = {' '.join(text.split())}" for name, text in found.unknown.items()]
    lines += ["", *(f"{key} = {_toml(value)}" for key, value in found.values.items())]
    for section in ("recipe", "search"):
        table: dict[str, Any] = getattr(found, section)
        if table:
            lines += ["", f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"
