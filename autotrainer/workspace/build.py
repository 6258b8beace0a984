"""The workspace of a node: its parent's harness version, the hooks of its skills, its patch; committed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import WorkspaceError
from autotrainer.library.skill import LoadedSkill
from autotrainer.tree.proposal import Edge, Proposal
from autotrainer.tree.tree import Tree
from autotrainer.workspace.copy import copy_pristine
from autotrainer.workspace.versions import apply_patch, checkout, commit
from autotrainer.workspace.vet import check_workspace


def build_workspace(
    paths: StudyPaths, node: str, proposal: Proposal, tree: Tree, library: Mapping[str, LoadedSkill]
) -> str:
    """Build the node's workspace anew and return its commit. Safe to repeat.

    Children inherit their parent's version; a replicate inherits the one of the node that it replicates (its
    last parent).

    Raises:
        WorkspaceError: a hook is missing, the patch does not apply, or it changes more than hooks and
        rewards.
    """
    target = paths.workspace(node)
    if target.exists():
        shutil.rmtree(target)
    source = _inherited(tree, proposal)
    if source is None:
        copy_pristine(paths.pristine / "harness", paths.pristine / "sandboxes", target)
    else:
        checkout(paths.harness_git, source, target)
    _copy_hooks(target, proposal, library)
    if proposal.patch:
        apply_patch(target, proposal.patch)
    _check_hooks(target, proposal)
    check_workspace(target, paths.pristine)
    return commit(paths.harness_git, target, node, parent=source, message=f"{node}: {proposal.edge}")


def _inherited(tree: Tree, proposal: Proposal) -> str | None:
    origin = proposal.parents[-1] if proposal.edge is Edge.REPLICATE else proposal.parents[0]
    return tree[origin].harness or None


def _copy_hooks(target: Path, proposal: Proposal, library: Mapping[str, LoadedSkill]) -> None:
    """Copy the hook of every skill that the recipe names; those shipped or inherited are there."""
    owners = {
        f"hooks/{Path(skill.card.folder).name}.py": skill for skill in library.values() if skill.card.hook
    }
    for stage in proposal.recipe.stages:
        for hook in stage.hooks:
            file = hook.ref.partition(":")[0]
            if file in owners:
                card = owners[file].card
                shutil.copyfile(Path(card.folder) / "hook.py", target / "harness" / file)


def _check_hooks(target: Path, proposal: Proposal) -> None:
    """Refuse a recipe that names a hook which neither skills nor the version nor its patch have."""
    for stage in proposal.recipe.stages:
        for hook in stage.hooks:
            if not (target / "harness" / hook.ref.partition(":")[0]).is_file():
                raise WorkspaceError(f"the recipe names hook {hook.ref}, and no skill or harness file has it")
