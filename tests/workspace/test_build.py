from dataclasses import replace

import pytest

from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import WorkspaceError
from autotrainer.library.loader import load_skills
from autotrainer.recipe.recipe import HookRef
from autotrainer.resources import tree as shipped
from autotrainer.testing.trees import TreeBuilder
from autotrainer.tree.proposal import Edge, Proposal, Purpose, Start
from autotrainer.workspace.build import build_workspace
from autotrainer.workspace.copy import copy_pristine
from autotrainer.workspace.digest import frozen_digests
from autotrainer.workspace.versions import diff

LIBRARY = load_skills()
OVERLONG = HookRef("rewards", "hooks/overlong.py:SoftOverlong")
NEW_HOOK = "--- /dev/null\n+++ b/harness/hooks/mine.py\n@@ -0,0 +1 @@\n+MINE = 1\n"
CHANGED_HOOK = "--- a/harness/hooks/mine.py\n+++ b/harness/hooks/mine.py\n@@ -1 +1 @@\n-MINE = 1\n+MINE = 2\n"
MOVED = "diff --git a/{0} b/{1}\nsimilarity index 100%\n{2} from {0}\n{2} to {1}\n"


class Study:
    def __init__(self, root):
        self.paths, self.trees = StudyPaths(root), TreeBuilder()
        copy_pristine(shipped("harness"), shipped("sandboxes"), self.paths.pristine)
        self.trees.base()

    def build(self, *parents, edge=Edge.TRANSITION, patch=None, hooks=()):
        recipe = self.trees.careful
        recipe = replace(recipe, stages=(replace(recipe.stages[0], hooks=tuple(hooks)),))
        proposal = Proposal(
            edge if parents else Edge.DRAFT, Purpose.SEARCH, parents or ("n000",), Start(), recipe, "a test",
            patch=patch,
        )  # fmt: skip
        node = self.trees.propose(proposal)
        made = build_workspace(self.paths, node, proposal, self.trees.tree, LIBRARY)
        self.trees.emit("node_queued", node=node, harness=made)
        return node

    def file(self, node, name):
        return self.paths.workspace(node) / "harness" / name

    def changes(self, old, new):
        return diff(self.paths.harness_git, f"node/{old}", f"node/{new}")


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_a_draft_runs_the_harness_as_shipped(study):
    node = study.build()
    assert frozen_digests(study.paths.workspace(node)) == frozen_digests(study.paths.pristine)
    assert study.file(node, "run.py").read_bytes() == (shipped("harness") / "run.py").read_bytes()
    assert study.changes(node, study.build()) == ""


def test_the_hook_of_a_skill_is_copied_under_the_name_of_its_folder(study):
    node = study.build(hooks=[OVERLONG])
    assert (
        study.file(node, "hooks/overlong.py").read_bytes()
        == (shipped("skills") / "overlong/hook.py").read_bytes()
    )
    assert not study.file(node, "hooks/rl_zvp.py").exists()
    assert "class SoftOverlong" in study.changes(study.build(), node)


def test_children_inherit_the_version_of_their_parent_and_drafts_do_not(study):
    parent = study.build(patch=NEW_HOOK)
    child = study.build(parent, patch=CHANGED_HOOK)
    assert study.file(child, "hooks/mine.py").read_text() == "MINE = 2\n"
    assert study.file(parent, "hooks/mine.py").read_text() == "MINE = 1\n"
    assert "-MINE = 1\n+MINE = 2\n" in study.changes(parent, child)
    assert not study.file(study.build(), "hooks/mine.py").exists()


def test_a_replicate_runs_the_version_of_what_it_replicates(study):
    parent = study.build()
    original = study.build(parent, patch=NEW_HOOK)
    again = study.build(parent, original, edge=Edge.REPLICATE)
    assert study.changes(original, again) == ""


def test_building_again_gives_the_same_files(study):
    node = study.build(patch=NEW_HOOK)
    study.file(node, "run.py").write_text("half written")
    proposal = study.trees.tree[node].proposal
    made = build_workspace(study.paths, node, proposal, study.trees.tree, LIBRARY)
    assert diff(study.paths.harness_git, study.trees.tree[node].harness, made) == ""
    assert study.file(node, "run.py").read_bytes() == (shipped("harness") / "run.py").read_bytes()


def test_a_hook_that_nobody_has_is_an_error(study):
    with pytest.raises(WorkspaceError, match=r"names hook hooks/nobody\.py:Hook"):
        study.build(hooks=[HookRef("loss", "hooks/nobody.py:Hook")])


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (NEW_HOOK.replace("harness/hooks/mine.py", "harness/sneaky.py"), r"frozen are harness/sneaky\.py"),
        (NEW_HOOK.replace("harness/hooks/mine.py", "torch.py"), r"torch\.py does not belong"),
        (NEW_HOOK.replace("harness/hooks/mine.py", "harness/hooks/.env"), r"hooks/\.env does not belong"),
        (NEW_HOOK.replace("harness/hooks/mine.py", "sandboxes/more.py"), r"frozen are sandboxes/more\.py"),
        (MOVED.format("harness/run.py", "harness/hooks/run.py", "rename"), r"frozen are harness/run\.py"),
        (MOVED.format("harness/hooks/api.py", "torch.py", "copy"), r"torch\.py does not belong"),
        (
            "diff --git a/harness/hooks/x.py b/harness/hooks/x.py\nnew file mode 120000\n--- /dev/null\n"
            "+++ b/harness/hooks/x.py\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
            r"hooks/x\.py is a link",
        ),
        ("--- a/harness/hooks/mine.py\n+++ b/harness/hooks/mine.py\n@@ -1 +1 @@\n-a\n+b\n", "does not apply"),
    ],
)
def test_a_patch_changes_hooks_and_rewards_and_nothing_else(study, patch, message):
    with pytest.raises(WorkspaceError, match=message):
        study.build(patch=patch)
