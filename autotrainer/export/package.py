"""`autotrainer export`: the model, a plain TRL script, recipe and requirements, in one folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from autotrainer.contract.models import JobSpec
from autotrainer.errors import ConfigError
from autotrainer.export.card import model_card
from autotrainer.export.script import ScriptFacts, train_script
from autotrainer.export.segments import Segment, segments
from autotrainer.export.toml import toml_text
from autotrainer.files import write_text
from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.tree.state import Validity
from autotrainer.ui import facts

_NOT_THE_MODEL = ("state", "checkpoint.json")
_COPIED_BASE_BYTES = 200 * 2**20
"""A base model in a folder travels along up to this size; a larger one is named by its path."""
_NEEDED = ("torch", "transformers", "trl", "datasets", "accelerate", "safetensors")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: the folder, the node it is of, and what could not be had, as sentences."""

    folder: Path
    node: str
    warnings: tuple[str, ...]


def export_study(view: StudyView, out: Path, node_id: str | None = None) -> Exported:
    """Write a node's model and what repeats it into a folder that is not there yet, or empty.

    Args:
        view: the study.
        out: the folder.
        node_id: the node; None takes what was promoted, else the best of the search.

    Raises:
        ConfigError: the folder has something in it, or there is no model to export.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not an empty folder: give another one to --out")
    node, warnings = _chosen(view, node_id)
    checkpoint = view.paths.checkpoint(node.job_id, node.last_step)
    if not (checkpoint / "config.json").is_file():
        raise ConfigError(
            f"{node.id} has no checkpoint any more ({checkpoint} is gone); repeat it with "
            f"`autotrainer run-node {view.config.id} {node.id}`, or give another --node"
        )
    aside = out.with_name(f".{out.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        _copy(checkpoint, aside / "model")
        write_text(aside / "recipe.toml", toml_text(_recipe(view, node)))
        warnings += _script(view, node, aside)
        write_text(
            aside / "model" / "README.md", model_card(view, node, has_script=(aside / "train.py").is_file())
        )
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_dir():
            out.rmdir()
        aside.replace(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Exported(out, node.id, tuple(warnings))


def _chosen(view: StudyView, node_id: str | None) -> tuple[Node, list[str]]:
    if node_id is not None:
        node, warnings = view.tree[node_id], []
    elif (promoted := view.tree.promoted()) is not None:
        return promoted, []
    else:
        best = facts.finalist(view)
        if best is None:
            raise ConfigError(f"study {view.config.id} has no scored node yet: there is nothing to export")
        node = best
        warnings = [f"nothing was promoted: {node.id} is the best by dev, the maximum of many tries"]
    if not node.last_step:
        raise ConfigError(f"{node.id} has no model of its own: it is {node.state} ({node.proposal.edge})")
    if node.validity is Validity.INVALID:
        warnings.append(f"{node.id} is invalid: {node.validity_reason}")
    return node, warnings


def _copy(checkpoint: Path, target: Path) -> None:
    def ignored(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(folder) == checkpoint and name in _NOT_THE_MODEL}

    shutil.copytree(checkpoint, target, ignore=ignored)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # safetensors writes for its owner alone


def _recipe(view: StudyView, node: Node) -> dict[str, Any]:
    """The path from the base as a recipe, with where it comes from."""
    recipe = view.tree.path_recipe(node.id, node.proposal.recipe.seed).to_json()
    origin = {"study": view.config.id, "node": node.id, "seed_of_study": view.config.seed}
    return {
        **{key: recipe[key] for key in ("model", "task", "seed")},
        "origin": origin,
        "stages": recipe["stages"],
    }


def _script(view: StudyView, node: Node, folder: Path) -> list[str]:
    """Write train.py with its data, base model and requirements; what is in the way, as sentences."""
    job = JobSpec.read(view.paths.job(node.job_id) / "job.json")
    try:
        path = segments(view, node.id)
        workspaces = {segment.workspace: view.paths.workspace(segment.workspace) for segment in path}
        own = Path(job.model.path)
        travels = own.is_dir() and _size(own) <= _COPIED_BASE_BYTES
        script = train_script(
            path,
            workspaces,
            ScriptFacts(
                title=f"Trains {node.id} of study {view.config.id}: {job.task}, {view.config.model}.",
                task=job.task,
                base="base" if travels else job.model.path,
                base_is_folder=travels,
                device=str(job.resources["device"]),
                threads=int(job.resources["threads"]),
            ),
        )
    except ConfigError as error:
        return [f"no train.py: {error}. `autotrainer run-node {view.config.id} {node.id}` repeats the node"]
    if travels:
        shutil.copytree(own, folder / "base")
    (folder / "data").mkdir()
    shutil.copy2(job.data["train"], folder / "data" / "train.jsonl")
    write_text(folder / "train.py", script)
    write_text(folder / "requirements.txt", _requirements(path))
    return _changed_in_flight(view, path)


def _changed_in_flight(view: StudyView, path: Sequence[Segment]) -> list[str]:
    """Jobs whose settings a person changed while they ran: the script does not know of it."""
    found = []
    for name in dict.fromkeys(segment.workspace for segment in path):
        answers = view.paths.job(view.tree[name].job_id) / "control-ack.jsonl"
        if answers.is_file() and '"kind":"set"' in answers.read_text(encoding="utf-8").replace(" ", ""):
            found.append(
                f"settings of {name} were changed while it ran ({answers}): train.py does not repeat that"
            )
    return found


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _requirements(path: Sequence[Segment]) -> str:
    """The versions that are installed here, which are those that the jobs ran with."""
    lora = any(segment.stage["arguments"].get("use_peft") for segment in path)
    names = [*_NEEDED, *(["peft"] if lora else []), "jinja2"]
    versions: Mapping[str, str] = {name: _version(name) for name in names}
    return "".join(f"{name}=={version}\n" for name, version in versions.items() if version)


def _version(name: str) -> str:
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""
