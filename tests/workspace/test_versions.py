import os
import subprocess

import pytest

from autotrainer.errors import WorkspaceError
from autotrainer.workspace.versions import apply_patch, checkout, commit, diff


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    (folder / "harness").mkdir(parents=True)
    (folder / "harness" / "hook.py").write_text("one\n")
    return folder


@pytest.fixture
def repository(tmp_path):
    return tmp_path / "study" / "harness.git"


def git(repository, *arguments):
    command = ["git", "--git-dir", repository, *arguments]
    environment = {"PATH": os.environ["PATH"]}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def two_versions(repository, workspace):
    first = commit(repository, workspace, "n001", parent=None, message="n001: draft")
    (workspace / "harness" / "hook.py").write_text("two\n")
    return first, commit(repository, workspace, "n002", parent=first, message="n002: improve")


def test_each_node_has_a_branch_and_its_parents_version_behind_it(repository, workspace):
    first, second = two_versions(repository, workspace)
    assert git(repository, "rev-parse", "node/n001", "node/n002", "node/n002^").split() == [
        first,
        second,
        first,
    ]
    assert git(repository, "log", "-1", "--format=%s", "node/n002") == "n002: improve"


def test_a_version_comes_back_file_by_file(repository, workspace, tmp_path):
    (workspace / ".gitignore").write_text("*.py\n")
    (workspace / "harness" / "crlf.py").write_bytes(b"a\r\nb\n\xff")
    first, second = two_versions(repository, workspace)
    checkout(repository, first, tmp_path / "old")
    checkout(repository, second, tmp_path / "new")
    assert (tmp_path / "old" / "harness" / "hook.py").read_text() == "one\n"
    assert (tmp_path / "new" / "harness" / "hook.py").read_text() == "two\n"
    assert (tmp_path / "new" / "harness" / "crlf.py").read_bytes() == b"a\r\nb\n\xff"
    assert (tmp_path / "new" / ".gitignore").exists()


def test_the_difference_of_two_versions_applies_to_the_first(repository, workspace, tmp_path):
    first, second = two_versions(repository, workspace)
    changes = diff(repository, first, second)
    assert "-one\n+two\n" in changes
    checkout(repository, first, tmp_path / "old")
    apply_patch(tmp_path / "old", changes)
    assert commit(repository, tmp_path / "old", "n003", parent=first, message="") != second
    assert diff(repository, second, "node/n003") == ""


def test_committing_a_node_again_moves_its_branch(repository, workspace):
    first, _ = two_versions(repository, workspace)
    again = commit(repository, workspace, "n001", parent=None, message="n001: draft")
    assert git(repository, "rev-parse", "node/n001") == again != first


def test_what_a_killed_commit_left_is_not_in_the_way(repository, workspace):
    repository.mkdir(parents=True)
    (repository / "HEAD").write_text("ref: refs/heads/master\n")
    branch = repository / "refs" / "heads" / "node" / "n001.lock"
    branch.parent.mkdir(parents=True)
    branch.touch()
    made = commit(repository, workspace, "n001", parent=None, message="n001: draft")
    assert git(repository, "rev-parse", "node/n001") == made


def test_neither_settings_of_the_user_nor_a_surrounding_git_matter(
    repository, workspace, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[commit]\n gpgsign = true\n[core]\n autocrlf = input\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other.index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", "/nowhere")
    two_versions(repository, workspace)
    assert not (tmp_path / "other.index").exists()
    assert git(repository, "log", "-1", "--format=%an", "node/n002") == "autotrainer"


def test_a_patch_applies_inside_another_repository_and_only_to_the_workspace(tmp_path):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    workspace = tmp_path / "runs" / "workspace"
    workspace.mkdir(parents=True)
    apply_patch(workspace, "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+here\n")
    assert (workspace / "new.py").read_text() == "here\n"
    assert not (tmp_path / "new.py").exists()


@pytest.mark.parametrize("name", ["../out.py", "/etc/out.py", ".git/config"])
def test_a_patch_cannot_reach_out_of_the_workspace(workspace, name):
    with pytest.raises(WorkspaceError, match="does not apply"):
        apply_patch(workspace, f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+here\n")
    assert sorted(os.listdir(workspace)) == ["harness"]


@pytest.mark.parametrize(
    "patch", ["", "nonsense", "--- a/harness/hook.py\n+++ b/harness/hook.py\n@@ -1 +1 @@\n-no\n+x\n"]
)
def test_a_patch_that_does_not_apply_is_an_error_and_changes_nothing(workspace, patch):
    with pytest.raises(WorkspaceError, match="does not apply"):
        apply_patch(workspace, patch)
    assert (workspace / "harness" / "hook.py").read_text() == "one\n"


def test_an_unknown_version_and_a_folder_with_something_in_it_are_errors(repository, workspace, tmp_path):
    first, _ = two_versions(repository, workspace)
    with pytest.raises(WorkspaceError, match="read-tree failed"):
        checkout(repository, "n999", tmp_path / "target")
    with pytest.raises(WorkspaceError, match="is not empty"):
        checkout(repository, first, workspace)
    with pytest.raises(WorkspaceError, match="diff failed"):
        diff(repository, first, "--output=/tmp/x")


def test_a_machine_without_git_says_so(repository, workspace, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(WorkspaceError, match="git is not installed"):
        commit(repository, workspace, "n001", parent=None, message="")
