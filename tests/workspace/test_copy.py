import pytest

from autotrainer.errors import WorkspaceError
from autotrainer.resources import tree
from autotrainer.workspace.copy import copy_pristine, copy_tree
from autotrainer.workspace.digest import frozen_digests, is_frozen

STRAY = (
    ".env",
    "wandb/run.py",
    "notes.txt",
    "data.jsonl",
    "__pycache__/run.py",
    ".git/config.py",
    "hooks/__pycache__/x.py",
    "hooks/weights.bin",
    "hooks/.hidden.py",
    "deep/er/module.py",
)


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    return folder


def test_only_what_the_allow_list_names_travels(tmp_path):
    wanted = {
        "run.py",
        "hooks/api.py",
        "rewards/length.py",
        "trainers/grpo.py",
        "tasks/math/task.py",
        "tasks/tasks.toml",
    }
    source = write(tmp_path / "harness", *wanted, *STRAY)
    copy_tree("harness", source, tmp_path / "copy")
    assert files(tmp_path / "copy") == wanted
    assert (tmp_path / "copy" / "run.py").read_text() == "# run.py\n"


def test_the_shipped_trees_travel_whole_but_for_caches(tmp_path):
    copy_pristine(tree("harness"), tree("sandboxes"), tmp_path)
    for name in ("harness", "sandboxes"):
        shipped = {file for file in files(tree(name)) if "__pycache__" not in file and "samples/" not in file}
        assert files(tmp_path / name) == shipped


def test_a_folder_without_anything_that_travels_is_an_error(tmp_path):
    source = write(tmp_path / "harness", *STRAY)
    with pytest.raises(WorkspaceError, match="no file of the harness tree"):
        copy_tree("harness", source, tmp_path / "copy")


def test_digests_are_those_of_the_frozen_files_and_see_every_change(tmp_path):
    workspace = write(
        tmp_path, "harness/run.py", "harness/hooks/mine.py", "sandboxes/api.py", "harness/hooks/api.py"
    )
    before = frozen_digests(workspace)
    assert set(before) == {"harness/run.py", "harness/hooks/api.py", "sandboxes/api.py"}
    (workspace / "harness/hooks/mine.py").write_text("another")
    assert frozen_digests(workspace) == before
    (workspace / "harness/hooks/api.py").write_text("abc")
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert frozen_digests(workspace) == before | {"harness/hooks/api.py": abc}


@pytest.mark.parametrize(
    "path", ["harness/run.py", "harness/hooks/api.py", "harness/hooks_x.py", "torch.py", ""]
)
def test_all_but_hooks_and_rewards_is_frozen(path):
    assert is_frozen(path)
    assert not is_frozen("harness/hooks/mine.py")
    assert not is_frozen("harness/rewards/mine.py")
