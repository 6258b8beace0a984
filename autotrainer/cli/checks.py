"""What `autotrainer doctor` looks at.

Nothing heavy is imported: versions come from the metadata of the installed packages.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from autotrainer.resources import tree

PACKAGE = "autotrainer"
_LOW_DISK_GIB = 5.0
_PROBE_LIMIT_S = 30.0
_HUB_LIMIT_S = 2.0
_ATTACKS_LIMIT_S = 240.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `status` is ok, warn (a study runs, with less) or fail (a study does not run)."""

    name: str
    status: str
    found: str
    wanted: str = ""
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """The check as plain JSON values."""
        return asdict(self)


def all_checks(runs: Path) -> Iterator[Check]:
    """Every check, in the order in which they are printed."""
    yield from check_versions()
    yield check_devices()
    yield check_git()
    yield check_isolation()
    yield check_sandbox()
    yield check_disk(runs)
    yield check_hub()
    yield check_key()
    yield check_mlflow(runs)


def check_versions() -> Iterator[Check]:
    """Python and the packages that the installed metadata of this one asks for, training extra included."""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    try:
        own = metadata.metadata(PACKAGE)
    except metadata.PackageNotFoundError:
        yield Check(
            "package", "fail", "not installed", PACKAGE, "pip install -e . in the checkout, or make setup"
        )
        return
    version, wanted = platform.python_version(), own["Requires-Python"]
    fits = SpecifierSet(wanted).contains(version, prereleases=True)
    yield Check(
        "python", "ok" if fits else "fail", version, wanted, "" if fits else f"install Python {wanted}"
    )
    for text in metadata.requires(PACKAGE) or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or (marker.evaluate({"extra": "train"}) and not marker.evaluate({"extra": ""})):
            extra = "" if marker is None else "[train]"
            yield _version(requirement.name, str(requirement.specifier), f"pip install '{PACKAGE}{extra}'")


def _version(name: str, wanted: str, advice: str) -> Check:
    from packaging.specifiers import SpecifierSet

    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, "fail", "missing", wanted, advice)
    fits = SpecifierSet(wanted).contains(found, prereleases=True)
    return Check(name, "ok" if fits else "fail", found, wanted, "" if fits else advice)


def check_devices() -> Check:
    """CPU cores and GPUs."""
    from autotrainer.executors.devices import describe_devices

    return Check("devices", "ok", describe_devices())


def check_git() -> Check:
    """git, which holds a version of the harness for every node."""
    found = shutil.which("git")
    if found is None:
        return Check("git", "fail", "missing", "git", "install git: every node's harness is a commit")
    text = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return Check("git", "ok", text.strip())


def check_isolation() -> Check:
    """How well jobs can be kept from what they must not read; tried in a child process."""
    command = [sys.executable, "-m", "sandboxes.isolation", "probe"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PROBE_LIMIT_S,
            check=True,
            cwd=tree("sandboxes").parent,
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        return Check("isolation", "fail", f"the probe failed: {error}", "A", f"run {' '.join(command)}")
    grade, reason = str(answer["grade"]), str(answer["reason"])
    if grade == "A":
        return Check("isolation", "ok", "grade A (bubblewrap)", "A")
    return Check(
        "isolation",
        "warn",
        f"grade {grade}: {reason}",
        "A",
        "install bubblewrap (Debian: apt-get install bubblewrap) so that jobs cannot read the vault",
    )


def check_sandbox() -> Check:
    """Whether programs that a model writes stay in: the shipped attacks are tried, each must fail."""
    command = [sys.executable, "-m", "sandboxes.selfcheck"]
    advice = (
        "install bubblewrap, or a container tool; without, tasks that run programs (code) cannot be scored"
    )
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_ATTACKS_LIMIT_S,
            check=False,
            cwd=tree("sandboxes").parent,
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        return Check("sandbox", "warn", f"the self-check failed: {error}", "", advice)
    if answer["backend"] is None:
        return Check("sandbox", "warn", f"none: {answer['error']}", "bubblewrap or a container", advice)
    if answer["failed"]:
        through = ", ".join(f"{name} ({what})" for name, what in answer["failed"].items())
        return Check(
            "sandbox", "fail", f"{answer['backend']} lets through: {through}", "none", "do not train on code"
        )
    cost = f"{answer['overhead_ms']['median']:.0f} ms a run"
    found = f"{answer['backend']}: {answer['attacks']} attacks failed, {cost}"
    return Check("sandbox", "ok", found)


def check_disk(runs: Path) -> Check:
    """Room for checkpoints where the studies go."""
    folder = next(path for path in (runs.resolve(), *runs.resolve().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free / 2**30
    text = f"{free:.1f} GiB free in {folder}"
    if free >= _LOW_DISK_GIB:
        return Check("disk", "ok", text)
    return Check(
        "disk", "warn", text, f"{_LOW_DISK_GIB:g} GiB", "free some, or give --runs DIR on another disk"
    )


def check_hub() -> Check:
    """Whether models and data can be fetched; the shipped model and task need none of it."""
    import os
    import socket
    from urllib.parse import urlsplit

    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return Check(
            "hub", "warn", "HF_HUB_OFFLINE is set: only models that are here", "", "unset it to fetch others"
        )
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    host, port = address.hostname or "huggingface.co", address.port or 443
    try:
        socket.create_connection((host, port), timeout=_HUB_LIMIT_S).close()
    except OSError as error:
        advice = "the shipped model works without; else give --model FOLDER, or set HF_ENDPOINT to a mirror"
        return Check("hub", "warn", f"{host} cannot be reached: {error}", "", advice)
    return Check("hub", "ok", f"{host} can be reached")


def check_key() -> Check:
    """Keys of language models in the environment; the planner `rules` needs none."""
    import os

    found = [name for name in os.environ if name.endswith("_API_KEY") and os.environ[name]]
    if found:
        return Check("language model", "ok", f"{', '.join(sorted(found))} is set")
    return Check(
        "language model",
        "ok",
        "no *_API_KEY is set: planner rules needs none; for --planner llm set the provider's, or give "
        "--llm-base-url",
    )


def check_mlflow(runs: Path) -> Check:
    """MLflow's database of the studies and the command that opens it."""
    from autotrainer.tracking.links import default_uri, open_command

    state = "database there" if (runs / "mlflow.db").is_file() else "database made by the first study"
    return Check("mlflow database", "ok", f"{state}: {open_command(default_uri(runs))}")
