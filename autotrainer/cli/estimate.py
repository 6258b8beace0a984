"""`autotrainer estimate`, and the plan that `run --dry-run` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from autotrainer.cli.options import DEFAULT_RUNS, JsonOption, print_json


def estimate(
    task: Annotated[str, typer.Option(help="What to learn; see `autotrainer tasks list`.")],
    budget: Annotated[str, typer.Option(help="NxDxT: 2xCPUx6m, 8xH100x24h.")],
    model: Annotated[str | None, typer.Option(help="Shipped model, folder, or hub id.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="A setting, as in `run`; repeatable."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """What a study would need and buy, by arithmetic.

    Memory and step time by part, runs that fit, mode, smallest provable gain, disk, price. The devices need
    not be there; nothing is started.
    """
    from autotrainer.cli.settings import Flags, build_config
    from autotrainer.study.study import dry_run

    flags = Flags(task=task, budget=budget, model=model, settings=tuple(settings or ()))
    found = dry_run(build_config(flags, DEFAULT_RUNS))
    if json_output:
        print_json(found)
        return
    for line in (*plan_lines(found), *part_lines(found)):
        typer.echo(line)
    typer.echo("nothing was started")


def plan_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Plan and cost for a person, the smallest provable gain first."""
    budget, plan = found["budget"], found["plan"]
    cost, gain = plan["cost"], plan["provable_gain"]
    yield (
        f"smallest gain over careful that this budget can prove: {100 * gain:.1f} points"
        if gain < 1
        else "too few seeds to prove any gain over careful"
    )
    yield f"task {found['task']}, model {found['model']}, seed {found['seed']}"
    yield (
        f"budget {budget['text']}: {budget['devices']} {budget['kind']}, {budget['device_s']:.0f} "
        f"device-seconds, {plan['slots']} jobs at a time"
    )
    yield f"cost model {found['cost_model']}"
    yield (
        f"  a job starts in {cost['startup_s']:.1f} s, does a step in {cost['step_s']:.2f} s; "
        f"an evaluation takes {cost['eval_s']:.1f} s"
    )
    yield f"mode {plan['mode']}: the budget buys {plan['full_runs']:.1f} runs of {plan['steps']} steps"
    yield (
        f"  {plan['careful_seeds']} careful seeds, {plan['drafts']} drafts, at most {plan['max_nodes']} "
        f"nodes of {duration(plan['job_s'])}, paths of up to {plan['max_depth']}"
    )
    yield "timetable"
    for row in found["timetable"]:
        yield (
            f"  {duration(row['from_s']):>8} to {duration(row['to_s']):>8}  {row['phase']:<8} "
            f"{row['device_s'] / 3600:8.2f} device-hours  {row['what']}"
        )


def part_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Memory, step time, disk and price."""
    memory, step, disk = found["memory_gib"], found["step_s"], found["disk_gib"]
    shape = found["model_shape"]
    yield f"model {shape['parameters'] / 1e9:.3g} B parameters, {shape['layers']} layers ({shape['source']})"
    parts = ", ".join(
        f"{name.replace('_', ' ')} {memory[name]:.2f}"
        for name in ("weights", "gradients", "optimizer", "reference", "activations", "kv_cache", "overhead")
    )
    verdict = "fits" if memory["fits"] else "DOES NOT FIT"
    yield f"memory {memory['total']:.2f} of {memory['device']:.0f} GiB a device: {verdict} ({parts})"
    if memory["advice"]:
        yield f"  {memory['advice']}"
    parts = ", ".join(f"{name} {step[name]:.2f}" for name in step if name != "total")
    yield f"step {step['total']:.2f} s ({parts})"
    yield (
        f"disk {disk['kept'] / 1024:.3f} TiB kept, {disk['checkpoint']:.2f} GiB a checkpoint with optimiser"
    )
    if found["price_usd"] is not None:
        yield f"price about {found['price_usd']:.0f} USD at a typical rent"


def duration(seconds: float) -> str:
    """Seconds for a person: 90 s, 12.5 min, 3 h 20."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d}"


def print_plan(found: Mapping[str, Any]) -> None:
    """What `run --dry-run` prints."""
    for line in (*plan_lines(found), *part_lines(found)):
        typer.echo(line)
    typer.echo("nothing was started")
