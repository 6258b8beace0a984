"""The wheel, built through the sdist from a copy with rubbish in it, and installed away from the checkout."""

import json
import shutil
import site
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREES = ("harness", "sandboxes", "skills")
RUBBISH = (
    "harness/.env",
    "skills/__pycache__/x.cpython-311.pyc",
    "sandboxes/mlruns/0/meta.yaml",
    "harness/x.pyc",
)


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def repository_files(*under: str) -> set[str]:
    """What git tracks, or would if it were added: what is on disk and not ignored."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = run(
        "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *under, cwd=ROOT
    )
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


@dataclass(frozen=True)
class Installed:
    """The wheel's files, and a fresh environment with it whose libraries are those of this one."""

    names: frozenset[str]
    bin: Path
    elsewhere: Path


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    copy, elsewhere = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("elsewhere")
    for name in repository_files():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    for name in RUBBISH:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("SECRET=1")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", elsewhere / "dist", copy, cwd=elsewhere)
    wheel = next((elsewhere / "dist").glob("*.whl"))
    environment = elsewhere / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=elsewhere)
    # This environment's libraries as a folder: its .pth files, which lead to the checkout, do not count.
    packages = next(environment.glob("lib/python*/site-packages"))
    (packages / "libraries.pth").write_text("\n".join(site.getsitepackages()))
    pip = (sys.executable, "-m", "pip", f"--python={environment / 'bin' / 'python'}", "install", "--no-deps")
    run(*pip, "--ignore-installed", wheel, cwd=elsewhere)
    with zipfile.ZipFile(wheel) as archive:
        names = frozenset(archive.namelist())
    return Installed(names, environment / "bin", elsewhere)


def test_the_only_importable_name_is_autotrainer(installed):
    tops = {name.partition("/")[0] for name in installed.names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"autotrainer"}


def test_the_wheel_holds_every_tracked_file_of_the_trees_and_no_other(installed):
    prefix = "autotrainer/_bundle/"
    bundled = {name.removeprefix(prefix) for name in installed.names if name.startswith(prefix)}
    assert bundled == repository_files(*TREES)


def test_the_wheel_holds_the_whole_package_with_its_model(installed):
    package = {n for n in installed.names if n.startswith("autotrainer/") and "/_bundle/" not in n}
    assert package == repository_files("autotrainer")
    assert "autotrainer/models/tiny/model.safetensors" in package
    assert "autotrainer/py.typed" in package


def test_the_installed_program_works_from_another_folder(installed):
    program, cwd = installed.bin / "autotrainer", installed.elsewhere
    assert run(program, "--version", cwd=cwd).startswith("autotrainer ")
    skills = json.loads(run(program, "skills", "list", "--json", cwd=cwd))
    assert len(skills) >= 6
    assert all(str(installed.elsewhere) in skill["folder"] for skill in skills)
    tasks = json.loads(run(program, "tasks", "list", "--json", cwd=cwd))
    assert "math" in {task["id"] for task in tasks}


def test_the_installed_package_finds_its_own_trees_and_offers_no_other_name(installed):
    code = (
        "import importlib.util as u, autotrainer.resources as r; "
        "print(r.tree('harness')); print(r.resolve_model('tiny')); "
        "print([n for n in ('harness', 'sandboxes', 'skills', 'tests', 'experiments') if u.find_spec(n)])"
    )
    harness, model, names = run(installed.bin / "python", "-c", code, cwd=installed.elsewhere).splitlines()
    assert harness.startswith(str(installed.elsewhere))
    assert (Path(harness) / "tasks" / "tasks.toml").is_file()
    assert model.startswith(str(installed.elsewhere))
    assert names == "[]"
