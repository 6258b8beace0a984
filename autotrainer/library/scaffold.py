"""A new skill's folder, complete enough to pass its own check."""

from __future__ import annotations

import re
from pathlib import Path

from autotrainer.errors import SkillError

_CARD = """---
id: {id}
name: {name}
paper: none
family: own
kind: rule
treats: [under_training]
requires: []
cost: none
badge: untested
---
# {name}

**Mechanism.** The reward has not moved: the updates are too small for the signal that the groups have.

**What it changes.** `learning_rate` x 2, from the last checkpoint.

**Helps when** gradients are there and the policy stays where it was.

**Hurts when** the run was about to move by itself, or the signal is noise.

**How to tell.** `reward` is higher in the last ten steps than it was in the parent's.
"""

_CODE = '''"""{name}: twice the learning rate where nothing moves."""

from __future__ import annotations

from collections.abc import Sequence

from autotrainer.contract.metrics import Metrics
from autotrainer.library.reading import moved, number, scaled, treated
from autotrainer.library.skill import Intervention
from autotrainer.recipe.knobs import KNOBS
from autotrainer.recipe.recipe import Recipe
from autotrainer.tree.finding import Finding
from autotrainer.tree.proposal import Prediction

RATE = 1e-6


class Skill:
    """Change me."""

    def applies(self, recipe: Recipe, findings: Sequence[Finding]) -> bool:
        """Where the finding is there and the knob can still be turned."""
        room = number(recipe, "learning_rate", RATE) < KNOBS["learning_rate"].high
        return room and treated(findings, "under_training") is not None

    def propose(self, recipe: Recipe, findings: Sequence[Finding]) -> Intervention:
        """What to change, why, and what should be seen if it works."""
        return Intervention(
            knobs={{"learning_rate": scaled(recipe, "learning_rate", 2.0, RATE)}},
            why="twice the learning rate: nothing moved",
            predictions=(Prediction("reward", "up", "larger updates"),),
        )

    def predicts(self, before: Metrics, after: Metrics) -> bool | None:
        """Whether it came out as predicted."""
        return moved(before, after, "reward", "up")
'''


def new_skill(skill: str, parent: Path) -> Path:
    """Write the folder of a new skill under `parent` and return it.

    Raises:
        SkillError: the id is not lower-case words joined by `-`, or the folder is there.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", skill):
        raise SkillError(f"skill id {skill!r} must be lower-case words joined by -, as in my-skill")
    folder = parent / skill.replace("-", "_")
    if folder.exists():
        raise SkillError(f"{folder} is there: choose another id")
    name = skill.replace("-", " ").capitalize()
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(_CARD.format(id=skill, name=name), encoding="utf-8")
    (folder / "skill.py").write_text(_CODE.format(name=name), encoding="utf-8")
    (folder / "__init__.py").write_text(f'"""Skill {skill}."""\n', encoding="utf-8")
    return folder
