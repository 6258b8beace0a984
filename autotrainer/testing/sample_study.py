"""A small but realistic study folder for tests of readers: report, picture, terminal, MLflow, `show --json`.

Written through the real types (StudyConfig, Journal, Proposal, Outcome, Score); the figures are invented and
depend on nothing but this file. Nothing of it may be shown as a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from autotrainer.contract.paths import StudyPaths
from autotrainer.files import write_text
from autotrainer.recipe.careful import careful_recipe
from autotrainer.recipe.forks import fork_for
from autotrainer.recipe.knobs import KnobValue
from autotrainer.recipe.recipe import HookRef, Recipe, Stage
from autotrainer.search.plan import JobCost, Plan
from autotrainer.search.statistics import seed_test
from autotrainer.study.config import StudyConfig
from autotrainer.testing.sample_metrics import sample_rows, write_rows
from autotrainer.tree.finding import Evidence, Finding, Severity
from autotrainer.tree.journal import Journal
from autotrainer.tree.node import Outcome
from autotrainer.tree.proposal import Edge, Prediction, Proposal, Purpose, Start
from autotrainer.tree.score import Score
from autotrainer.tree.tree import Tree

STARTED = 1_767_258_000.0
"""Epoch seconds of the sample's first event: 2026-01-01 09:00 UTC."""
STEPS = 60

COLLAPSE = Finding(
    kind="collapse",
    pathology="P12",
    severity=Severity.CRITICAL,
    confidence=0.97,
    onset_step=9,
    message="reward fell from 0.36 to 0.01 and almost no group has a difference left",
    evidence=(
        Evidence("reward", (9, 15), 0.01, 0.03),
        Evidence("frac_reward_zero_std", (9, 15), 0.97, 0.9),
    ),
    confirm="rollouts after step 9 repeat one token",
    told_from=("zero_advantage", "truncation"),
    kills=True,
)
ZERO_ADVANTAGE = Finding(
    kind="zero_advantage",
    pathology="P08",
    severity=Severity.WARNING,
    confidence=0.8,
    onset_step=38,
    message="three groups in four are all correct: they teach nothing",
    evidence=(Evidence("frac_reward_zero_std", (38, 60), 0.74, 0.6),),
    told_from=("under_training",),
)


@dataclass
class SampleStudy:
    """Writes a study event by event; `now` is the clock (epoch seconds), moved by what happens."""

    root: Path
    now: float = STARTED
    tree: Tree = field(default_factory=Tree)

    def __post_init__(self) -> None:
        """Create the folder, study.toml and the journal up to the start of the budget's clock."""
        self.root.mkdir(parents=True)
        self.paths = StudyPaths(self.root)
        self.config = StudyConfig.build(
            {"id": self.root.name, "task": "math", "model": "tiny", "budget_text": "2xCPUx6m"}
        )
        self.careful = careful_recipe("tiny", "math", 0, STEPS, 8)
        write_text(self.paths.config, self.config.to_toml())
        self.journal = Journal(self.paths.journal, clock=lambda: self.now)
        self.emit("study_created", study=self.config.id, seed=0, config=self.config.model_dump(mode="json"))

    def emit(self, kind: str, **data: Any) -> None:
        """Write one event."""
        self.tree.apply(self.journal.append(kind, data))

    def start(self) -> None:
        """Prepare the study and start its clock."""
        self.now += 40
        manifest = {
            "task": "math",
            "seed": 0,
            "splits": {"dev": {"n": 512, "sha256": "0" * 64}},
            "task_facts": {"max_completion_length": 8},
            "audit": {"gold_accepted": 1.0, "bad_rejected": 1.0, "overlap": 0},
        }
        plan = Plan(
            mode="tree",
            slots=2,
            steps=STEPS,
            careful_seeds=2,
            drafts=1,
            max_depth=3,
            max_nodes=10,
            finalists=1,
            confirm_seeds=3,
            job_s=21.0,
            confirm_reserve_s=250.0,
            full_runs=28.8,
            provable_gain=0.034,
            cost=JobCost(9.0, 0.2, 4.0),
        )
        self.emit("study_prepared", manifest=manifest, model_path="tiny", plan=plan.to_json())
        self.emit("study_started", deadline=self.now + 360, granted=720.0)
        self.emit("phase", phase="careful", reason="mode tree")
        self.emit("charge", what="evaluator start", device_s=6.0)

    def propose(
        self,
        edge: Edge,
        purpose: Purpose,
        recipe: Recipe,
        why: str,
        *,
        parents: tuple[str, ...] = ("n000",),
        start: Start | None = None,
        **rest: Any,
    ) -> str:
        """Propose and queue a node; its id."""
        index = len(self.tree)
        proposal = Proposal(
            edge=edge,
            purpose=purpose,
            parents=parents,
            start=start or Start(),
            recipe=recipe,
            hypothesis=why,
            planner=rest.pop("planner", "rules"),
            **rest,
        )
        node = f"n{index:03d}"
        self.now += 0.4
        self.emit("node_proposed", node=node, index=index, proposal=proposal.to_json())
        self.emit("node_queued", node=node, harness="" if purpose is Purpose.BASE else f"{index:040x}")
        return node

    def base(self) -> str:
        """The base model's node, scored."""
        node = self.propose(
            Edge.BASE,
            Purpose.BASE,
            self.careful,
            "the base model, before any training",
            parents=(),
            planner="study",
        )
        self.emit("node_state", node=node, state="evaluating", reason="nothing to train")
        self.score(node, dev=0.312, holdout=0.306)
        self.emit("node_state", node=node, state="completed", reason="scored")
        return node

    def seed(self, purpose: Purpose, seed: int, steps: int = STEPS) -> str:
        """A careful or control seed."""
        return self.propose(
            Edge.DRAFT,
            purpose,
            careful_recipe("tiny", "math", seed, steps, 8),
            "the careful recipe on one more seed: the baseline that search has to beat",
            planner="study",
        )

    def child(
        self,
        parent: str,
        why: str,
        knobs: Mapping[str, KnobValue],
        *,
        edge: Edge = Edge.TRANSITION,
        hooks: tuple[HookRef, ...] = (),
        **rest: Any,
    ) -> str:
        """A node of the search: a draft, or from the parent's last checkpoint, or (restart) from the base."""
        root = parent == "n000"
        old = self.careful.stages[-1] if root else self.tree[parent].proposal.recipe.stages[-1]
        stage = Stage(old.algorithm, STEPS, {**old.knobs, **knobs}, hooks=(*old.hooks, *hooks))
        fresh = root or edge is Edge.RESTART
        if not fresh:
            stage = Stage(stage.algorithm, STEPS, stage.knobs, stage.hooks, fork=fork_for(old, stage))
        start = Start() if fresh else Start("weights", parent, self.tree[parent].last_step)
        recipe = Recipe("tiny", "math", (stage,), 1000 + len(self.tree))
        return self.propose(
            Edge.DRAFT if root else edge, Purpose.SEARCH, recipe, why, parents=(parent,), start=start, **rest
        )

    def run(self, node: str, until: int | None = None, *, level: tuple[float, float] = (0.33, 0.5)) -> None:
        """Submit the node and write its metrics up to `until`; the reward goes between the levels."""
        proposal, attempt = self.tree[node].proposal, self.tree[node].attempt + 1
        job = f"{node}.{attempt}"
        self.emit(
            "job_submitted", node=node, attempt=attempt, job_id=job, device_s=9 + 0.2 * proposal.recipe.steps
        )
        steps = until if until is not None else proposal.recipe.steps
        collapse = 9 if float(proposal.recipe.stages[-1].knobs["learning_rate"]) >= 1e-3 else None
        rows = sample_rows(node, proposal.recipe, steps, level=level, collapse=collapse, started=self.now)
        write_rows(self.paths.job(job) / "metrics.jsonl", rows)
        self.now += (9 + 0.2 * steps) / 2

    def end(self, node: str, status: str = "completed", reason: str = "", steps: int | None = None) -> None:
        """Settle the node's job and record its outcome."""
        own = self.tree[node]
        done = own.proposal.recipe.steps if steps is None else steps
        device_s = 9 + 0.2 * done
        self.emit("job_settled", job_id=own.job_id, node=node, device_s=device_s, status=status)
        kept = (
            tuple(sorted({s for s in (done // 3, 2 * done // 3, done) if s})) if status == "completed" else ()
        )
        outcome = Outcome(
            status,
            reason or "trained to its step limit",
            done,
            kept,
            device_s,
            {"mode": own.proposal.start.mode},
        )
        self.emit("node_trained", node=node, outcome=outcome.to_json())

    def complete(
        self, node: str, dev: float, holdout: float | None = None, findings: tuple[Finding, ...] = ()
    ) -> str:
        """Run the node to its end and score it."""
        start = self.tree[node].proposal.start.node
        before = self.tree[start].score("dev") if start else 0.312
        self.run(node, level=(before or 0.312, dev))
        self.end(node)
        for finding in findings:
            self.emit("node_finding", node=node, finding=finding.to_json())
        self.emit("node_state", node=node, state="evaluating", reason="trained to its step limit")
        self.score(node, dev=dev, holdout=holdout)
        self.emit("node_state", node=node, state="completed", reason="scored")
        return node

    def score(self, node: str, **means: float | None) -> None:
        """Record scores by split."""
        for split, mean in means.items():
            if mean is None:
                continue
            items = {f"i{place:04d}": float(place < round(mean * 512)) for place in range(512)}
            score = Score.from_items(split, items, samples=4, seeds=(0,), greedy=round(mean + 0.02, 3))
            self.now += 2
            self.emit(
                "node_scored",
                node=node,
                step=self.tree[node].last_step,
                split=split,
                score=score.summary(),
                device_s=4.0,
            )

    def prune(self, node: str, step: int, finding: Finding) -> str:
        """Run the node until a kill rule stops it."""
        self.run(node, step)
        self.emit("node_finding", node=node, finding=finding.to_json())
        reason = f"{finding.kind} at step {step}: {finding.message}"
        self.emit("kill_requested", node=node, rule=finding.kind, reason=reason)
        self.end(node, "stopped", reason, step)
        self.emit("node_state", node=node, state="pruned", reason=reason)
        return node


def write_sample_study(root: Path) -> Path:
    """A finished study of 17 nodes under `root`, which must not exist: search paid.

    n000 base; n001, n002 careful; n003 pruned draft (collapse); n004 its restart; n005 - n008 on from n001,
    up to depth 3; n009 failed; n010 on from n007, the finalist; n011 - n016 confirmation and control seeds in
    turn; n015 promoted.
    """
    study = _searched(root)
    failing = study.child(
        "n007",
        "too long completions lose reward smoothly",
        {},
        skills=("overlong",),
        hooks=(HookRef("rewards", "hooks/overlong.py:Overlong", {"buffer": 2}),),
    )
    study.run(failing, 0)
    study.end(failing, "failed", "hooks/overlong.py line 31: TypeError: 'NoneType' object is not iterable", 0)
    study.emit("node_state", node=failing, state="failed", reason=study.tree[failing].outcome.reason)  # type: ignore[union-attr]
    study.complete(
        study.child(
            "n007",
            "a decay at the end settles what was learnt",
            {"lr_scheduler_type": "linear"},
            skills=("anneal-late",),
            treats=("healthy",),
            finding_node="n007",
        ),
        0.549,
    )
    _confirm(study)
    _finish(study)
    return root


def write_running_study(root: Path) -> Path:
    """The same study while it searches: n009 runs (34 of 60 steps), n010 is being evaluated."""
    study = _searched(root)
    running = study.child(
        "n007", "more exploration keeps entropy up", {"temperature": 1.1, "beta": 0.01}, skills=("kl-anchor",)
    )
    waiting = study.child(
        "n007", "a decay at the end", {"lr_scheduler_type": "linear"}, skills=("anneal-late",)
    )
    study.run(waiting, level=(0.55, 0.56))
    study.end(waiting)
    study.emit("node_state", node=waiting, state="evaluating", reason="trained to its step limit")
    study.run(running, 34, level=(0.55, 0.57))
    return root


def _searched(root: Path) -> SampleStudy:
    """The study after its first nine nodes."""
    study = SampleStudy(root)
    study.start()
    study.base()
    for seed, dev in ((11, 0.471), (12, 0.458)):
        study.complete(study.seed(Purpose.CAREFUL, seed), dev)
    study.emit("phase", phase="search", reason="2 careful seeds are proposed")
    study.prune(
        study.child(
            "n000", "a learning rate ten times higher, to see where it breaks", {"learning_rate": 1e-3}
        ),
        15,
        COLLAPSE,
    )
    study.complete(
        study.child(
            "n003",
            "the collapse came with the learning rate: a third of it",
            {"learning_rate": 3e-4},
            edge=Edge.RESTART,
            skills=("lr-backoff",),
            treats=("collapse",),
            finding_node="n003",
            predictions=(Prediction("reward", "up", "no collapse"),),
        ),
        0.486,
    )
    study.complete(
        study.child(
            "n001",
            "twice the completions a prompt find the prompts that are rarely solved",
            {"num_generations": 16, "prompts_per_step": 4},
            skills=("larger-groups",),
            treats=("healthy",),
        ),
        0.514,
        findings=(ZERO_ADVANTAGE,),
    )
    study.complete(
        study.child("n001", "an anchor to the base model", {"beta": 0.02}, skills=("kl-anchor",)), 0.462
    )
    study.complete(
        study.child(
            "n005",
            "raise the upper clip and the rate: rare correct tokens may grow",
            skills=("dapo-clip-higher",),
            knobs={"epsilon_high": 0.28, "learning_rate": 2e-4, "temperature": 1.1},
            treats=("zero_advantage",),
            finding_node="n005",
        ),
        0.553,
    )
    study.complete(
        study.child("n005", "the same recipe for longer", {}, edge=Edge.CONTINUE),
        0.523,
        findings=(ZERO_ADVANTAGE,),
    )
    return study


def _confirm(study: SampleStudy) -> None:
    study.emit(
        "phase", phase="confirm", reason="10 of 10 nodes are spent; n007 on 3 fresh seeds", confirm_seeds=3
    )
    for seed, winner, control in ((21, 0.541, 0.498), (22, 0.533, 0.489), (23, 0.552, 0.503)):
        path = study.tree.path_recipe("n007", seed)
        confirm = study.propose(
            Edge.REPLICATE,
            Purpose.CONFIRM,
            path,
            "the whole path of n007 from the base model does as well on a fresh seed",
            parents=("n000", "n007"),
            planner="schedule",
            skills=("larger-groups", "dapo-clip-higher"),
        )
        study.complete(confirm, winner, winner - 0.008)
        study.complete(study.seed(Purpose.CONTROL, seed + 100, path.steps), control, control - 0.011)


def _finish(study: SampleStudy) -> None:
    study.emit("phase", phase="test", reason="6 of 6 confirmation runs are scored")
    arms = {purpose: study.tree.with_purpose(purpose) for purpose in (Purpose.CONFIRM, Purpose.CONTROL)}
    study.score("n000", test=0.309)
    for nodes in arms.values():
        for node in nodes:
            study.score(node.id, test=(node.score("dev") or 0.0) - 0.006)
    dev = {purpose: [node.score("dev") or 0.0 for node in nodes] for purpose, nodes in arms.items()}
    gain = seed_test(dev[Purpose.CONFIRM], dev[Purpose.CONTROL]).figure()
    headline = (
        f"search pays: n007 on 3 fresh seeds is {100 * gain['mean']:+.1f} points from equally long careful "
        f"runs (95 % interval {100 * gain['low']:+.1f} to {100 * gain['high']:+.1f}, p = {gain['p']:.3g})"
    )
    promoted = (
        "n015 is promoted: +22.8 points from the base model on holdout "
        "(95 % interval +19.1 to +26.4, 3 seed(s))"
    )
    test = {p: fmean(study.tree[n.id].score("test") or 0.0 for n in nodes) for p, nodes in arms.items()}
    study.emit(
        "node_verdict", node="n015", verdict="promoted", reason=headline, figures={"confirmed_gain": gain}
    )
    study.emit("phase", phase="done", reason=headline)
    study.emit(
        "study_finished",
        reason="completed",
        summary={
            "arm": "search",
            "winner": "n015",
            "finalist": "n007",
            "reasons": [headline, promoted],
            "base_test": 0.309,
            "careful_test": test[Purpose.CONTROL],
            "winner_test": test[Purpose.CONFIRM],
            "search_time_gain": 0.0885,
            "confirmed_gain": gain,
            "confirmed_share": float(gain["mean"]) / 0.0885,
            "gain_over_base": {"mean": test[Purpose.CONFIRM] - 0.309, "low": 0.19, "high": 0.254, "n": 3},
        },
    )


def write_wide_study(root: Path, nodes: int = 500) -> Path:
    """A running study of `nodes` trained nodes besides the base, for what has to stay quick on a large tree.

    Every node but the first few goes on from one of an eighth of its number; the figures rise with depth.
    """
    study = SampleStudy(root)
    study.start()
    study.base()
    study.emit("phase", phase="search", reason="wide")
    for number in range(1, nodes + 1):
        parent = f"n{max(0, number // 8):03d}"
        node = study.child(
            parent, f"try {number}", {"learning_rate": 1e-4 * (1 + number % 7)}, skills=("lr-raise",)
        )
        study.emit("job_submitted", node=node, attempt=1, job_id=f"{node}.1", device_s=1.0)
        study.end(node)
        study.emit("node_state", node=node, state="evaluating", reason="trained to its step limit")
        study.score(node, dev=0.32 + 0.05 * study.tree.depth(node) + 0.0001 * (number % 97))
        study.emit("node_state", node=node, state="completed", reason="scored")
    return root
