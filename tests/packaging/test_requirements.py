"""What the code imports is declared, pinned, and the same everywhere it is written."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
OURS = {"autotrainer", "harness", "sandboxes", "skills", "experiments", "tests", "autotrainer_skills"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


# Extras that environments of their own resolve by their ranges: nothing pins them, and the control plane does
# without them and says so.
UNPINNED = {"gpu", "tensorboard"}


def declared(*extras: str) -> set[str]:
    texts = [*PROJECT["dependencies"], *(t for e in extras for t in PROJECT["optional-dependencies"][e])]
    return {canonicalize_name(Requirement(text).name) for text in texts}


def imported(tree: str, *, but: str = "nothing") -> set[str]:
    """The distributions behind every import of other people's modules, lazy ones included."""
    names: set[str] = set()
    for path in (path for path in (ROOT / tree).rglob("*.py") if ROOT / but not in path.parents):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.partition(".")[0])
    third = names - OURS - sys.stdlib_module_names
    owners = metadata.packages_distributions()
    return {
        next(
            (name for name in map(canonicalize_name, owners.get(module, ())) if name in everything()), module
        )
        for module in third
    }


def everything() -> set[str]:
    return declared("train", "dev", "tensorboard")


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    found = dict(line.split("==") for line in lines if re.fullmatch(r"[\w.-]+==[\w.!+-]+", line))
    return {canonicalize_name(key): value for key, value in found.items()}


def test_the_control_plane_imports_only_what_it_declares():
    assert imported("autotrainer", but="autotrainer/testing") <= declared("tensorboard")


def test_the_conformance_classes_need_the_test_tools_and_no_more():
    assert imported("autotrainer/testing") <= declared("dev")


def test_the_skills_import_only_what_a_job_or_the_control_plane_has():
    assert imported("skills") <= declared("train")


def test_the_harness_imports_only_what_the_train_extra_declares():
    job = {canonicalize_name(Requirement(t).name) for t in PROJECT["optional-dependencies"]["train"]}
    assert imported("harness") <= job


def test_the_sandboxes_import_the_standard_library_alone():
    assert imported("sandboxes") == set()


def test_every_declared_package_is_pinned_to_a_version_it_allows():
    extras = PROJECT["optional-dependencies"]
    lists = [PROJECT["dependencies"], *(texts for name, texts in extras.items() if name not in UNPINNED)]
    locked, direct = pins("requirements.lock"), pins("requirements.txt")
    for requirement in (Requirement(text) for texts in lists for text in texts):
        name = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(direct[name]), requirement
        assert locked[name] == direct[name]


def test_the_lock_has_everything_that_is_needed_in_versions_that_go_together():
    extras = PROJECT["optional-dependencies"]
    pinned = [texts for name, texts in extras.items() if name not in UNPINNED]
    waiting = [Requirement(text) for texts in [PROJECT["dependencies"], *pinned] for text in texts]
    locked, seen, wrong = pins("requirements.lock"), set(), []
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if not requirement.specifier.contains(locked.get(name, "0"), prereleases=True):
            wrong.append(f"{requirement}: the lock has {locked.get(name)}")
        if (name, *sorted(requirement.extras)) in seen:
            continue
        seen.add((name, *sorted(requirement.extras)))
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            wanted = [{"extra": extra} for extra in requirement.extras or {""}]
            if needed.marker is None or any(needed.marker.evaluate(one) for one in wanted):
                waiting.append(needed)
    assert wrong == []
    assert {name for name, *_ in seen} <= set(locked)


def test_the_licence_that_the_tree_names_is_the_project_s():
    assert PROJECT["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert PROJECT["license-files"] == ["LICENSE"]


def test_torch_is_one_version_everywhere():
    version = pins("requirements.txt")["torch"]
    assert f"TORCH := torch=={version}\n" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", ["requirements.txt", "requirements.lock"])
def test_every_requirement_is_an_exact_version_from_no_particular_index(name):
    lines = (ROOT / name).read_text().splitlines()
    rest = [line for line in lines if line and not line.startswith("#") and "==" not in line]
    assert rest in ([], ["-c requirements.lock"])
    assert not any("://" in line or "+" in line for line in lines)


def test_a_checkout_uses_its_own_trees():
    from autotrainer.resources import tree

    assert tree("harness") == ROOT / "harness"
