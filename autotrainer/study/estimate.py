"""estimate: what a study would be, before anything is there: plan, memory, time, disk, price, timetable."""

from __future__ import annotations

from math import ceil
from typing import Any

from autotrainer.budget.cost_model import nominal_cost
from autotrainer.budget.device_table import Device, device
from autotrainer.budget.grammar import BudgetSpec, parse_budget
from autotrainer.budget.memory import Batch, Memory, job_memory, largest_micro_batch
from autotrainer.budget.model_shape import ModelShape, shape_of
from autotrainer.budget.step_time import step_time
from autotrainer.recipe.careful import careful_recipe
from autotrainer.recipe.compile import trl_arguments
from autotrainer.recipe.recipe import Stage
from autotrainer.search.estimate import confirm_device_s, confirm_wall_s, node_device_s, node_wall_s
from autotrainer.search.plan import Plan
from autotrainer.search.planning import make_plan
from autotrainer.study.config import StudyConfig
from autotrainer.study.setup import task_facts

PROMPT_TOKENS = 128
"""Tokens of a prompt with its chat template, where the task does not say."""
CHECKPOINTS = 3
"""Checkpoints that a node leaves (study/jobs.py)."""
_MEMORY_SHARE = 0.92
"""Share of a device's memory that a job may plan with."""


def estimate(config: StudyConfig) -> dict[str, Any]:
    """Everything that arithmetic says about a study; the smoke run before the clock replaces the times.

    Raises:
        ConfigError: model size, device kind or budget do not allow an estimate or a plan.
    """
    budget, facts = parse_budget(config.budget_text), task_facts(config.task, config.tasks_dirs)
    cap = int(facts["max_completion_length"])
    overrides = {key: value for key, value in config.recipe.items() if key != "algorithm"}
    stage = careful_recipe(config.model, config.task, config.seed, 2, cap, overrides).stages[0]
    batch = _batch(stage, budget, int(facts.get("prompt_tokens", PROMPT_TOKENS)))
    cost = nominal_cost(
        config.model,
        budget.kind,
        batch=batch,
        eval_items=config.evaluation.dev_items or int(facts["sizes"]["dev"]),
        eval_samples=config.evaluation.samples,
    )
    plan = make_plan(budget, cost, config.search, model_name=config.model, slots=config.budget.slots)
    shape, own = shape_of(config.model), device(budget.kind)
    return {
        "schema_version": 1,
        "task": config.task,
        "model": config.model,
        "seed": config.seed,
        "planner": config.planner,
        "policy": config.policy,
        "budget": _budget(budget),
        "cost_model": "nominal: the smoke run before the clock replaces it",
        "plan": plan.to_json(),
        "timetable": timetable(plan, budget),
        "model_shape": {"parameters": shape.parameters, "layers": shape.layers, "source": shape.source},
        "memory_gib": _memory(shape, batch, stage, own),
        "step_s": _step(shape, batch, stage, own),
        "disk_gib": _disk(shape, plan),
        "price_usd": own.usd_per_hour and own.usd_per_hour * budget.device_s / 3600,
    }


def timetable(plan: Plan, budget: BudgetSpec) -> list[dict[str, Any]]:
    """The phases with their clock times (seconds after the start) and device-seconds, as far as planned."""
    cost, slots = plan.cost, plan.slots
    wall, device_s = node_wall_s(cost, plan.steps, slots), node_device_s(cost, plan.steps)
    rows: list[dict[str, Any]] = []

    def add(phase: str, what: str, seconds: float, used: float) -> None:
        start = rows[-1]["to_s"] if rows else 0.0
        rows.append(
            {"phase": phase, "what": what, "from_s": start, "to_s": start + seconds, "device_s": used}
        )

    add("base", "the base model on dev", cost.eval_s, cost.eval_s)
    seeds = plan.careful_seeds
    add("careful", f"{seeds} careful seeds", ceil(seeds / slots) * wall, seeds * device_s)
    if plan.mode != "tree":
        add("test", "base and careful seeds on test", (seeds + 1) * cost.eval_s, (seeds + 1) * cost.eval_s)
        return rows
    nodes = max(0, plan.max_nodes - seeds)
    waves = ceil(plan.max_nodes / slots) - ceil(seeds / slots)  # search fills the slots that careful leaves
    add("search", f"{nodes} nodes of {plan.steps} steps", waves * wall, nodes * device_s)
    arms, path = plan.finalists + 1, plan.max_depth * plan.steps
    add(
        "confirm",
        f"{arms} arms x {plan.confirm_seeds} fresh seeds of up to {path} steps from the base, then test",
        confirm_wall_s(cost, path, arms, plan.confirm_seeds, slots),
        confirm_device_s(cost, path, arms, plan.confirm_seeds),
    )
    left = budget.seconds - rows[-1]["to_s"]
    if left > 0:
        add("spare", "more nodes where runs are cheaper than planned; the rest is returned", left, 0.0)
    return rows


def _budget(budget: BudgetSpec) -> dict[str, Any]:
    return {
        "text": budget.text,
        "device_s": budget.device_s,
        "devices": budget.devices,
        "kind": budget.kind,
    }


def _batch(stage: Stage, budget: BudgetSpec, prompt_tokens: int) -> Batch:
    arguments = trl_arguments(stage, "cpu" if budget.is_cpu else "cuda")
    micro = int(arguments["per_device_train_batch_size"])
    sequences = micro * int(arguments["gradient_accumulation_steps"])
    return Batch(sequences, micro, prompt_tokens, int(stage.knobs["max_completion_length"]))


def _memory(shape: ModelShape, batch: Batch, stage: Stage, own: Device) -> dict[str, Any]:
    """Parts, whether they fit, and where they do not the change that makes them fit."""
    cpu, beta = own.kind == "CPU", float(stage.knobs.get("beta", 0.0))
    memory = job_memory(shape, batch, beta=beta, checkpointing=not cpu, cpu=cpu)
    limit = _MEMORY_SHARE * own.memory_gib
    fits = memory.total <= limit
    return {
        **memory.to_json(),
        "device": own.memory_gib,
        "fits": fits,
        "advice": "" if fits else _advice(shape, batch, memory, limit, beta, cpu),
    }


def _advice(shape: ModelShape, batch: Batch, memory: Memory, limit: float, beta: float, cpu: bool) -> str:
    micro = largest_micro_batch(shape, batch, limit, beta=beta, checkpointing=not cpu, cpu=cpu)
    if micro is not None:
        return f"{micro} sequences a pass instead of {batch.micro} fit; the step's batch stays the same"
    if memory.reference and largest_micro_batch(shape, batch, limit, beta=0.0, checkpointing=True, cpu=cpu):
        return "it fits with recipe.beta=0, which needs no reference model"
    fixed = memory.weights + memory.gradients + memory.optimizer + memory.reference
    if fixed > limit:
        return (
            f"weights, gradients and Adam alone take {fixed:.0f} of {limit:.0f} GiB: take a smaller model or "
            "a larger device"
        )
    return (
        f"generation keeps {batch.sequences} sequences of {batch.length} tokens: fewer "
        "recipe.prompts_per_step or recipe.num_generations, or a smaller recipe.max_completion_length fit"
    )


def _step(shape: ModelShape, batch: Batch, stage: Stage, own: Device) -> dict[str, Any]:
    time = step_time(
        shape,
        batch,
        own,
        num_iterations=int(stage.knobs.get("num_iterations", 1)),
        beta=float(stage.knobs.get("beta", 0.0)),
        checkpointing=own.kind != "CPU",
    )
    return dict(time.to_json())


def _disk(shape: ModelShape, plan: Plan) -> dict[str, float]:
    """Float32 weights and Adam's two moments a checkpoint, before and after retention."""
    runs = plan.max_nodes + (plan.finalists + 1) * plan.confirm_seeds
    weights = 4.0 * shape.parameters / 2**30
    return {
        "checkpoint": 3 * weights,
        "everything": runs * CHECKPOINTS * 3 * weights,
        "kept": runs * weights + 3 * CHECKPOINTS * 3 * weights,
    }
