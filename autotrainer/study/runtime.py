"""Runtime: the heavy objects of one running study, and the one way in which it records what happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotrainer.budget.grammar import BudgetSpec
from autotrainer.budget.ledger import Ledger
from autotrainer.contract.metrics import Metrics
from autotrainer.contract.models import Manifest
from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import JournalError
from autotrainer.evaluation.client import EvaluatorClient
from autotrainer.executors.base import Executor, Job
from autotrainer.library.skill import LoadedSkill
from autotrainer.planners.base import Planner, PlanningContext, planning_rng
from autotrainer.recipe.recipe import Recipe
from autotrainer.search.base import SearchPolicy
from autotrainer.search.plan import Plan
from autotrainer.search.repairs import proven_micro_batch
from autotrainer.study.config import StudyConfig
from autotrainer.study.view import StudyView
from autotrainer.tree.event import Event
from autotrainer.tree.journal import Journal
from autotrainer.tree.proposal import Proposal
from autotrainer.tree.tree import Tree
from autotrainer.workspace.build import build_workspace

BuildWorkspace = Callable[[StudyPaths, str, Proposal, Tree, Mapping[str, LoadedSkill]], str]


@dataclass
class Runtime:
    """What the steps of the loop work on.

    Everything that has to survive a crash is in the journal or in the contract's files.
    """

    paths: StudyPaths
    config: StudyConfig
    budget: BudgetSpec
    journal: Journal
    executor: Executor
    evaluator: EvaluatorClient
    planner: Planner
    policy: SearchPolicy
    library: Mapping[str, LoadedSkill]
    model_path: str
    python: str
    should_stop: Callable[[], bool] = lambda: False
    """Whether the study is to pause."""
    should_finish: Callable[[], bool] = lambda: False
    """Whether it is to judge what it has and end."""
    stop_reason: Callable[[], str] = lambda: ""
    clock: Callable[[], float] = time.time
    build: BuildWorkspace = build_workspace
    tree: Tree = field(init=False)
    ledger: Ledger = field(init=False)
    _jobs: dict[str, Job] = field(default_factory=dict, init=False)
    _diagnosed: dict[str, int] = field(default_factory=dict, init=False)
    _plan: Plan | None = field(default=None, init=False)
    _beliefs: Mapping[str, float] | None = field(default=None, init=False)
    _completion_length: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Fold the journal."""
        self.tree = Tree.replay(self.journal)
        self.ledger = Ledger.replay(self.journal)

    def record(self, kind: str, **data: Any) -> Event:
        """Check an event against tree and ledger, write it durably, and have both know it."""
        return self.journal.append(kind, data, check=self._fold)

    def _fold(self, event: Event) -> None:
        self.tree.apply(event)
        self.ledger.apply(event)

    def view(self) -> StudyView:
        """The study as a reader sees it."""
        return StudyView(self.paths, self.config, tuple(self.journal), self.tree, self.ledger)

    @property
    def plan(self) -> Plan:
        """The plan of the study.

        Raises:
            JournalError: the study is not prepared.
        """
        if self._plan is None:
            self._plan = self.view().plan
        if self._plan is None:
            raise JournalError(f"{self.paths.journal}: the study is not prepared")
        return self._plan

    @property
    def careful(self) -> Recipe:
        """The study's careful recipe, as long as a search node, in passes that have fitted into memory."""
        recipe = self.careful_recipe(self.plan.steps)
        micro = proven_micro_batch(self.tree)
        return recipe if micro is None else recipe.with_knobs({"micro_batch": micro})

    def careful_recipe(self, steps: int) -> Recipe:
        """The careful recipe of this study's model and task with the user's overrides."""
        from autotrainer.recipe.careful import careful_recipe
        from autotrainer.study.tasks import with_own_reward

        overrides = {key: value for key, value in self.config.recipe.items() if key != "algorithm"}
        recipe = careful_recipe(
            self.config.model,
            self.config.task,
            self.config.seed,
            steps,
            self.max_completion_length,
            overrides,
        )
        return with_own_reward(recipe, self.config.reward)

    @property
    def beliefs(self) -> Mapping[str, float]:
        """What earlier studies said of the skills when this one was prepared."""
        event = self.view().last("study_prepared") if self._beliefs is None else None
        if event is not None:
            self._beliefs = {key: float(value) for key, value in event.data.get("beliefs", {}).items()}
        return self._beliefs or {}

    @property
    def max_completion_length(self) -> int:
        """The task's cap on completions, in tokens."""
        if not self._completion_length:
            facts = Manifest.read(self.paths.manifest).task_facts
            self._completion_length = int(facts["max_completion_length"])
        return self._completion_length

    def planning_context(self) -> PlanningContext:
        """What the planner may look at, now."""
        return PlanningContext(
            tree=self.tree,
            careful=self.careful,
            steps=self.plan.steps,
            library=self.library,
            rng=planning_rng(self.config.seed, len(self.tree)),
            metrics=self.metrics,
            settings=self.config.search.model_dump(),
            beliefs=self.beliefs,
        )

    def metrics(self, node_id: str) -> Metrics:
        """The metrics of a node's newest attempt."""
        return self.view().metrics(node_id)

    def job(self, job_id: str) -> Job:
        """The running or ended job of that id."""
        if job_id not in self._jobs:
            self._jobs[job_id] = self.executor.attach(job_id, self.paths.job(job_id))
        return self._jobs[job_id]

    def diagnosed_until(self, node_id: str, step: int | None = None) -> int:
        """Get, or set, the step up to which a running node was diagnosed."""
        if step is not None:
            self._diagnosed[node_id] = step
        return self._diagnosed.get(node_id, 0)
