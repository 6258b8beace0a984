"""`autotrainer run` and `autotrainer resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from autotrainer.cli.options import DEFAULT_RUNS, JsonOption, RunsOption, StudyArgument, print_json
from autotrainer.errors import StudyLockedError

if TYPE_CHECKING:
    from autotrainer.study.config import StudyConfig

DetachOption: TypeAlias = Annotated[
    bool, typer.Option("--detach", help="Leave it to a watchdog that survives logout; return at once.")
]


def run(
    task: Annotated[str | None, typer.Option(help="What to learn; see `autotrainer tasks list`.")] = None,
    budget: Annotated[str | None, typer.Option(help="NxDxT: 2xCPUx6m, 8xH100x24h.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Shipped model, folder, or hub id. Default: tiny on CPU, a Qwen2.5 instruct model on GPU."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the whole study. Default: 0.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SECTION.KEY=VALUE", help="A setting, as recipe.learning_rate=1e-4; repeatable."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A study.toml; the other options override it."),
    ] = None,
    planner: Annotated[str | None, typer.Option(help="Who proposes. Default: rules.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="Who selects the parent. Default: the planner's own.")
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm",
            metavar="PROVIDER/MODEL",
            envvar="AUTOTRAINER_LLM",
            help="A language model plans: anthropic/..., openai/..., ollama/... "
            "Its key: AUTOTRAINER_LLM_API_KEY or the provider's variable.",
        ),
    ] = None,
    llm_base_url: Annotated[
        str | None,
        typer.Option(
            "--llm-base-url", metavar="URL", help="An OpenAI-compatible server: http://127.0.0.1:8000/v1."
        ),
    ] = None,
    llm_coder: Annotated[
        str | None,
        typer.Option("--llm-coder", metavar="PROVIDER/MODEL", help="Who repairs what was refused."),
    ] = None,
    llm_budget: Annotated[
        float | None, typer.Option("--llm-budget", metavar="USD", help="For all its calls; hard. Default: 5.")
    ] = None,
    llm_timeout: Annotated[
        float | None,
        typer.Option(
            "--llm-timeout", metavar="S", help="For one call. Default: 15 % of the time left, 10 to 180."
        ),
    ] = None,
    approve: Annotated[
        str | None, typer.Option("--approve", metavar="edits|all", help="Its decisions wait for a person.")
    ] = None,
    skills: Annotated[
        list[Path] | None,
        typer.Option("--skills", metavar="DIR", help="A folder of more skills; repeatable."),
    ] = None,
    tasks: Annotated[
        list[Path] | None,
        typer.Option("--tasks", metavar="DIR", help="A folder of more tasks; repeatable."),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:FN", help="Train on this function (TRL's or verl's signature); the judge stays."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Start although the pre-launch audit fails; recorded.")
    ] = False,
    study: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Default: task, date and time.")
    ] = None,
    mlflow_uri: Annotated[
        str | None,
        typer.Option(
            "--mlflow-uri", metavar="URI", help="Tracking server or database. Default: mlflow.db in --runs."
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor", metavar="local|simulated", help="simulated plays the study, trains nothing."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print plan and cost; start and create nothing.")
    ] = False,
    detach: DetachOption = False,
    json_output: JsonOption = False,
) -> None:
    """Run a study until its budget is spent.

    Designs, trains, diagnoses, kills and forks runs, and confirms the best on fresh seeds before it claims a
    gain. Ctrl-C asks it to stop: jobs write a checkpoint and the study pauses.
    """
    from autotrainer.cli.drive import drive
    from autotrainer.cli.estimate import print_plan
    from autotrainer.cli.settings import Flags, build_config

    flags = Flags(
        task=task,
        budget=budget,
        model=model,
        seed=seed,
        planner=planner,
        policy=policy,
        study=study,
        config=config,
        skills=tuple(skills or ()),
        tasks=tuple(tasks or ()),
        reward=reward,
        force=force,
        settings=tuple(settings or ()),
        llm={
            "model": llm,
            "base_url": llm_base_url,
            "coder": llm_coder,
            "budget_usd": llm_budget,
            "timeout_s": llm_timeout,
            "approve": approve,
        },
        mlflow_uri=mlflow_uri,
        executor=executor,
    )
    asked = build_config(flags, runs)
    from autotrainer.study import study as studies  # after the cheap checks

    default = " (default)" if model is None and config is None else ""
    if dry_run:
        plan = studies.dry_run(asked)
        print_json(plan) if json_output else print_plan(plan)
        return
    if asked.executor == "simulated":
        _play(asked, runs, json_output)
        return
    root = studies.create_study(asked, runs)
    typer.echo(
        f"study {asked.id}: task {asked.task}, model {asked.model}{default}, seed {asked.seed}, in {root}",
        err=json_output,
    )
    if asked.reward is not None:
        typer.echo(
            f"trained on {asked.reward}, judged by the verifier of {asked.task.partition('?')[0]}",
            err=json_output,
        )
    if detach:
        _detach(root)
    else:
        drive(root, json_output=json_output, created=True)


def _play(asked: StudyConfig, runs: Path, json_output: bool) -> None:
    """Play a study in the simulated world and print how it ended; every line says SIMULATED."""
    from autotrainer.bench.simulated.night import play_night
    from autotrainer.cli.drive import print_study
    from autotrainer.cli.progress import SimulatedProgress

    typer.echo(
        f"SIMULATED study {asked.id}: no model is trained, nothing below is about {asked.model}", err=True
    )
    progress = SimulatedProgress(to_stderr=json_output)
    view = play_night(asked, runs, progress.tick)
    print_json(view.to_json()) if json_output else print_study(view)


def resume(
    study: StudyArgument = None,
    runs: RunsOption = DEFAULT_RUNS,
    detach: DetachOption = False,
    json_output: JsonOption = False,
) -> None:
    """Take a study up where it was left.

    Whatever ended it: a pause, a crash of the planner or of the machine. Jobs that still run are found again.
    """
    from autotrainer.cli.drive import drive
    from autotrainer.cli.locate import find_study

    root = find_study(study, runs)
    if detach:
        _detach(root)
    else:
        drive(root, json_output=json_output)


def _detach(root: Path) -> None:
    """Leave a study to a watchdog and say how to follow and end it."""
    from autotrainer.cli.drive import study_command
    from autotrainer.study.study import is_controlled
    from autotrainer.study.watchdog import detach

    if is_controlled(root):
        raise StudyLockedError(f"study {root.name} is run by another autotrainer: there is nothing to detach")
    process = detach(root)
    typer.echo(
        f"study {root.name} goes on by itself (process {process}); what it prints: {root / 'control.log'}"
    )
    typer.echo(f"look with {study_command('show', root)}, stop with {study_command('stop', root)}")
