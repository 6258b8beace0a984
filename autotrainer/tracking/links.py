"""Where a study is seen in MLflow: the command that opens it, and the address of its run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import ContractError
from autotrainer.files import SCHEMA_VERSION, read_json, write_json

LOCAL_SERVER = "http://127.0.0.1:5000"
"""Where `mlflow ui` listens unless it is told otherwise."""
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class MlflowLink:
    """`command` starts a viewer, "" where a server runs already; `url` is the study's run in it."""

    command: str
    url: str


def default_uri(runs: Path) -> str:
    """The tracking URI of a folder of studies: a database beside them, that all of them share."""
    return f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def without_credentials(uri: str) -> str:
    """The URI as it may be shown."""
    return _CREDENTIALS.sub("", uri)


def open_command(uri: str) -> str:
    """The command that shows what a tracking URI has; "" for a server, which shows it by itself."""
    return (
        "" if uri.startswith(("http://", "https://")) else f"mlflow ui --backend-store-uri {shlex.quote(uri)}"
    )


def remember(paths: StudyPaths, uri: str, experiment_id: str, run_id: str) -> None:
    """Leave beside the study where its mirror is; a file that says so already stays."""
    value = {
        "schema_version": SCHEMA_VERSION,
        "uri": without_credentials(uri),
        "experiment_id": experiment_id,
        "run_id": run_id,
    }
    try:
        if read_json(paths.mlflow) == value:
            return
    except (FileNotFoundError, ContractError):
        pass
    write_json(paths.mlflow, value)


def mlflow_link(paths: StudyPaths) -> MlflowLink | None:
    """The link of a study that was mirrored; None before that."""
    try:
        known = read_json(paths.mlflow)
        uri, place = str(known["uri"]), f"#/experiments/{known['experiment_id']}/runs/{known['run_id']}"
    except (FileNotFoundError, ContractError, KeyError):
        return None
    command = open_command(uri)
    return MlflowLink(command, f"{LOCAL_SERVER if command else uri.rstrip('/')}/{place}")
