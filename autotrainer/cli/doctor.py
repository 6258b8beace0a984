"""`autotrainer doctor`."""

from __future__ import annotations

import typer

from autotrainer.cli.options import DEFAULT_RUNS, JsonOption, RunsOption, print_json


def doctor(runs: RunsOption = DEFAULT_RUNS, json_output: JsonOption = False) -> None:
    """Check this machine.

    Versions, devices, isolation, disk, MLflow; exit code 1 where a study could not run.
    """
    from autotrainer.cli.checks import all_checks

    checks = list(all_checks(runs))
    failed = any(check.status == "fail" for check in checks)
    if json_output:
        print_json({"schema_version": 1, "ok": not failed, "checks": [check.to_json() for check in checks]})
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            wanted = f" (wanted {check.wanted})" if check.wanted and check.status != "ok" else ""
            advice = f": {check.advice}" if check.advice else ""
            typer.echo(f"{check.status:4}  {check.name:{width}}  {check.found}{wanted}{advice}")
    if failed:
        raise typer.Exit(1)
