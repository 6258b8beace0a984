"""Where everything of a study lies (docs/contract.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StudyPaths:
    """The paths of one study; nothing is created by asking for one."""

    root: Path

    @property
    def config(self) -> Path:
        """What was asked, frozen."""
        return self.root / "study.toml"

    @property
    def journal(self) -> Path:
        """The truth."""
        return self.root / "journal.jsonl"

    @property
    def control_lock(self) -> Path:
        """Held by the control plane."""
        return self.root / "control.lock"

    @property
    def data(self) -> Path:
        """Train and probe splits and the manifest."""
        return self.root / "data"

    @property
    def manifest(self) -> Path:
        """What prepare.py wrote about the data."""
        return self.data / "manifest.json"

    @property
    def vault(self) -> Path:
        """The splits that no job may read."""
        return self.root / "vault"

    @property
    def harness_git(self) -> Path:
        """One commit a node."""
        return self.root / "harness.git"

    @property
    def pristine(self) -> Path:
        """The harness as shipped; evaluator and prepare run from here."""
        return self.root / "pristine"

    @property
    def evals(self) -> Path:
        """The evaluator's answers."""
        return self.root / "evals"

    @property
    def eval_requests(self) -> Path:
        """The evaluator's inbox."""
        return self.root / "evaluator" / "requests"

    @property
    def report(self) -> Path:
        """The report."""
        return self.root / "report.html"

    @property
    def tree_picture(self) -> Path:
        """The run tree as a picture."""
        return self.root / "tree.svg"

    @property
    def mlflow(self) -> Path:
        """Where the study's mirror in MLflow is; for people and links."""
        return self.root / "mlflow.json"

    @property
    def graph_checkpoints(self) -> Path:
        """LangGraph's checkpoints; may be deleted at any time."""
        return self.root / "graph.sqlite"

    def node(self, node: str) -> Path:
        """The folder of a node."""
        return self.root / "nodes" / node

    def workspace(self, node: str) -> Path:
        """The node's copy of the harness."""
        return self.node(node) / "workspace"

    def job(self, job_id: str) -> Path:
        """The folder of a job: `<node>.<attempt>`, `evaluator.<k>`, `prepare.<k>` or `smoke.<k>`."""
        owner, _, attempt = job_id.rpartition(".")
        if owner in ("evaluator", "prepare", "smoke"):
            return self.root / owner / attempt
        return self.node(owner) / attempt

    def checkpoint(self, job_id: str, step: int) -> Path:
        """A checkpoint of a job."""
        return self.job(job_id) / "checkpoints" / str(step)

    def eval_answer(self, node: str, step: int, split: str) -> Path:
        """The evaluator's answer for one checkpoint and split."""
        return self.evals / node / f"{step}-{split}.json"
