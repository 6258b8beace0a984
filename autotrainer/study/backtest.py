"""Backtests of skills on what a study has stored: no GPU, no training; in a job, as hooks are code."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from autotrainer.errors import ConfigError, ExecutorError, SkillError
from autotrainer.executors.base import Resources
from autotrainer.executors.environment import job_environment
from autotrainer.files import read_json, write_json
from autotrainer.library.skill import LoadedSkill
from autotrainer.recipe.recipe import HookRef, Recipe
from autotrainer.resources import tree
from autotrainer.study.view import StudyView
from autotrainer.testing.findings import EXAMPLES
from autotrainer.workspace.copy import copy_pristine

LIMIT_S = 600.0
REPLAYED = ("rewards", "advantages", "sampler", "rollouts")
FEWEST = 20
"""Groups below which no verdict is given."""


def backtest_skill(skill: LoadedSkill, view: StudyView, node: str | None = None) -> dict[str, Any]:
    """What a skill's hook would have done to the stored rollouts of a study, or of one of its nodes.

    Returns:
        The figures of harness/backtest.py, the verdict (helps, harms, no effect, too little) and why.

    Raises:
        SkillError: it has no hook, or only one that needs the current policy.
        ConfigError: there are no stored rollouts.
        ExecutorError: the replay failed.
    """
    hook = _hook(skill, view)
    folders = _rollouts(view, node)
    recipe = next((n.proposal.recipe for n in view.tree.nodes if n.id != "n000"), None)
    cap = int(recipe.stages[-1].knobs.get("max_completion_length", 256)) if recipe else 256
    with tempfile.TemporaryDirectory(prefix="autotrainer-backtest-") as place:
        workspace = Path(place) / "workspace"
        copy_pristine(tree("harness"), tree("sandboxes"), workspace)
        assert skill.card.hook is not None
        name = Path(skill.card.folder).name
        shutil.copyfile(skill.card.hook, workspace / "harness" / "hooks" / f"{name}.py")
        output = Path(place) / "figures.json"
        spec = Path(place) / "spec.json"
        write_json(
            spec,
            {
                "schema_version": 1,
                "rollouts": [str(folder) for folder in folders],
                "hook": {"point": hook.point, "ref": hook.ref, "params": dict(hook.params)},
                "max_completion_length": cap,
                "seed": view.config.seed,
                "output": str(output),
            },
        )
        done = subprocess.run(
            [sys.executable, "-m", "harness.backtest", str(spec)],
            cwd=workspace,
            env=job_environment(Resources("cpu"), workspace),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no output"]
            raise ExecutorError(f"the backtest of {skill.card.id} failed: {lines[-1][:300]}")
        figures = dict(read_json(output))
    verdict, why = _verdict(figures)
    return {
        **figures,
        "skill": skill.card.id,
        "point": hook.point,
        "study": view.config.id,
        "nodes": [folder.parent.parent.name for folder in folders],
        "verdict": verdict,
        "why": why,
    }


def _hook(skill: LoadedSkill, view: StudyView) -> HookRef:
    """The hook that the skill proposes for some finding that it treats."""
    if skill.card.hook is None:
        raise SkillError(
            f"{skill.card.id} has no hook: knobs cannot be replayed on stored rollouts, only trained"
        )
    recipes = [node.proposal.recipe for node in view.tree.nodes][-1:]
    for recipe in recipes:
        for changed in (recipe, _several_updates(recipe)):
            for kind in skill.card.treats:
                for finding in EXAMPLES.get(kind, ()):
                    if not skill.code.applies(changed, (finding,)):
                        continue
                    for hook in skill.code.propose(changed, (finding,)).hooks:
                        if hook.point in REPLAYED:
                            return hook
    raise SkillError(
        f"{skill.card.id} has no hook that stored rollouts can replay: points are {', '.join(REPLAYED)}"
    )


def _several_updates(recipe: Recipe) -> Recipe:
    return recipe.with_knobs({"num_iterations": 2})


def _rollouts(view: StudyView, node: str | None) -> list[Path]:
    if node is not None and node not in view.tree:
        raise ConfigError(f"study {view.config.id} has no node {node!r}")
    chosen = [view.tree[node]] if node is not None else list(view.tree.nodes)
    folders = [view.paths.job(item.job_id) / "rollouts" for item in chosen if item.attempt]
    found = [folder for folder in folders if any(folder.glob("*.parquet"))]
    if not found:
        raise ConfigError(f"study {view.config.id} has no stored rollouts{f' of {node}' if node else ''}")
    return found


def _verdict(figures: dict[str, Any]) -> tuple[str, str]:
    """The verdict follows from the effect's interval and from what the reward then rewards."""
    effect = figures["effect"]
    if figures["groups"] < FEWEST:
        return "too little", f"{figures['groups']} groups are stored: at least {FEWEST} are needed"
    before, after = figures.get("correctness_before"), figures.get("correctness_after")
    if before is not None and after is not None and after < before - 0.05:
        return (
            "harms",
            f"the reward's rank correlation with correctness falls from {before:.2f} to {after:.2f}",
        )
    if effect["low"] > 0:
        return "helps", f"{100 * effect['mean']:+.1f} points of the groups teach more"
    if effect["high"] < 0:
        return "harms", f"{100 * effect['mean']:+.1f} points of the groups teach less"
    return "no effect", "the interval of the effect contains 0"
