"""`autotrainer bench`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from autotrainer.cli.options import JsonOption, print_json


def bench(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The benchmark; without one, list them.")
    ] = None,
    suite: Annotated[str, typer.Option("--suite", metavar="SUITE", help="A part of the benchmark.")] = "",
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Repetitions.")] = None,
    work: Annotated[
        Path,
        typer.Option("--work", metavar="DIR", file_okay=False, help="Folder to leave cells in and resume."),
    ] = Path("runs/bench"),
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", file_okay=False, help="Default: experiments/results."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print what was last recorded; run nothing.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Run a benchmark and record its figures in experiments/results/NAME.json."""
    from autotrainer.bench import record, registry
    from autotrainer.bench.base import BenchOptions

    if name is None:
        _list(json_output)
        return
    registry.check_name(name)
    if show:
        value = record.read_result(f"{name}-{suite}" if suite else name, results)
    else:
        options = BenchOptions(suite, seeds, work, lambda text: typer.echo(text, err=True))
        measured = registry.benchmark(name).run(options)
        recorded = str(measured.get("name", name))
        path = record.write_result(recorded, measured, record.command_line(), results)
        typer.echo(f"recorded in {path}", err=True)
        value = record.read_result(recorded, results)
    if json_output:
        print_json(value)
    else:
        for line in figure_lines(value):
            typer.echo(line)


def _list(json_output: bool) -> None:
    from autotrainer.bench import registry

    rows = [{"name": name, "summary": registry.summary(name)} for name in registry.names()]
    if json_output:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['name']:<15} {row['summary']}")


def figure_lines(value: Mapping[str, Any]) -> list[str]:
    """The figures of a recorded file as lines for a person, nested ones with a dotted name."""
    simulated = " SIMULATED" if value.get("simulated") else ""
    head = f"{value['name']}{simulated}, recorded {value['date']} at commit {value['commit'] or 'unknown'}"
    return [head, *(f"  {key:<58} {text}" for key, text in _flat("", value["figures"]))]


def _flat(prefix: str, value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, Mapping):
        return [(prefix, _number(value))]
    middle = next((key for key in ("mean", "median") if key in value), None)
    if middle is not None and not isinstance(value[middle], Mapping):
        return [(prefix, _figure(value, middle))]
    pairs: list[tuple[str, str]] = []
    for key, item in value.items():
        pairs += _flat(f"{prefix}.{key}" if prefix else str(key), item)
    return pairs


def _figure(value: Mapping[str, Any], middle: str) -> str:
    text = f"{middle} {_number(value[middle])}"
    if "low" in value and "high" in value:
        text += f" ({_number(value['low'])} to {_number(value['high'])})"
    return text + (f", n = {value['n']}" if "n" in value else "")


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
