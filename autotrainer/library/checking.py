"""Checks of a skill as a person runs them: the conformance class, test by test, with what failed."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from autotrainer.library.skill import LoadedSkill


@dataclass(frozen=True, slots=True)
class Checked:
    """One check of a skill: its name as a sentence, and what is wrong; empty where nothing is."""

    name: str
    trouble: str


def check_skill(skill: LoadedSkill) -> Iterator[Checked]:
    """Run every check of SkillConformance on a skill.

    A skill's own code may raise anything; that is a failed check, not an error of ours.
    """
    from autotrainer.testing.skill_conformance import SkillConformance

    suite = SkillConformance()
    for name in sorted(attribute for attribute in dir(suite) if attribute.startswith("test_")):
        sentence = name.removeprefix("test_").replace("_", " ")
        try:
            getattr(suite, name)(skill)
        except AssertionError as error:
            yield Checked(sentence, _where(error))
        except Exception as error:  # noqa: BLE001 - the boundary to a plugin's code
            yield Checked(sentence, f"{type(error).__name__}: {error}")
        else:
            yield Checked(sentence, "")


def _where(error: AssertionError) -> str:
    """The assertion that failed, as it stands in the source."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return str(error) or f"not so: {frame.line}"
