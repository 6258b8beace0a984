"""try_skill: a skill's proposals as real two-step jobs of the tiny model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autotrainer.library.checking import check_skill
from autotrainer.library.skill import LoadedSkill
from autotrainer.recipe.recipe import Recipe
from autotrainer.study.config import StudyConfig
from autotrainer.study.runtime import Runtime
from autotrainer.study.setup import prepare_data
from autotrainer.study.smoke import smoke_job
from autotrainer.study.study import create_study, open_runtime
from autotrainer.testing.findings import EXAMPLES
from autotrainer.testing.skill_conformance import apply
from autotrainer.workspace.copy import copy_pristine

STEPS = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing that was tried, whether it worked, and what was seen."""

    what: str
    ok: bool
    found: str


def try_skill(skill: LoadedSkill) -> Iterator[Trial]:
    """Check a skill, then train STEPS steps with its proposal for an example of each finding it treats."""
    troubles = [item for item in check_skill(skill) if item.trouble]
    yield Trial(
        "conformance", not troubles, "; ".join(f"{t.name}: {t.trouble}" for t in troubles) or "every check"
    )
    with tempfile.TemporaryDirectory(prefix="autotrainer-skill-") as folder:
        config = StudyConfig.build(
            {"id": "trial", "task": "math", "model": "tiny", "budget_text": "1xCPUx10m"}
        )
        runtime = open_runtime(create_study(config, Path(folder)))
        prepare_data(runtime, lambda text: None)
        for kind in skill.card.treats:
            yield _trial(runtime, skill, kind)


def _trial(runtime: Runtime, skill: LoadedSkill, kind: str) -> Trial:
    careful = runtime.careful_recipe(STEPS)
    fitting = [
        (recipe, finding)
        for recipe in (careful, careful.with_knobs({"num_iterations": 2}))
        for finding in EXAMPLES.get(kind, ())
        if skill.code.applies(recipe, (finding,))
    ]
    if not fitting:
        return Trial(kind, True, "does not apply to the careful recipe: nothing to train")
    old, finding = fitting[0]
    recipe = apply(old, skill.code.propose(old, (finding,)))
    workspace = runtime.paths.root / "workspaces" / kind
    copy_pristine(runtime.paths.pristine / "harness", runtime.paths.pristine / "sandboxes", workspace)
    if skill.card.hook is not None:
        name = Path(skill.card.folder).name
        shutil.copyfile(skill.card.hook, workspace / "harness" / "hooks" / f"{name}.py")
    result = smoke_job(runtime, f"{kind.replace('_', '-')}.1", _short(recipe), workspace)
    return Trial(
        kind, result.status == "completed", f"{result.status} after {result.steps} steps: {result.reason}"
    )


def _short(recipe: Recipe) -> Recipe:
    """Two steps, whatever the proposal asked for."""
    return replace(recipe, stages=tuple(replace(stage, steps=STEPS) for stage in recipe.stages))
