"""The Typer application and the process boundary: every failure ends as one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from autotrainer import __version__
from autotrainer.cli import (
    backtest,
    bench,
    control,
    diagnose,
    doctor,
    estimate,
    export,
    importing,
    init,
    library,
    run,
    show,
    steer,
    tasks,
    ui,
    watch,
)
from autotrainer.cli.nearest import did_you_mean
from autotrainer.errors import AutotrainerError, ConfigError, SkillError, StudyLockedError

_USER_ERRORS = (ConfigError, SkillError, StudyLockedError)
"""What the user can put right: exit code 2. Everything else is 1."""

app = typer.Typer(
    name="autotrainer",
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("resume")(run.resume)
app.command("stop")(control.stop)
app.command("pause")(control.pause)
app.command("watchdog", hidden=True)(control.watchdog)
app.command("show")(show.show)
app.command("report")(show.report)
app.command("backtest")(backtest.backtest)
app.command("diagnose")(diagnose.diagnose)
app.command("watch")(watch.watch)
app.command("init")(init.init)
app.command("ui")(ui.ui)
app.command("export")(export.export)
app.command("estimate")(estimate.estimate)
app.command("steer")(steer.steer)
app.command("approve")(steer.approve)
app.command("run-node")(control.run_node)
app.add_typer(library.app, name="skills")
app.add_typer(tasks.app, name="tasks")
app.command("import")(importing.import_file)
app.command("doctor")(doctor.doctor)
app.command("bench")(bench.bench)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    r"""An agent that designs and tunes RL training runs of language models.

    \b
    Examples:
      autotrainer run --task math --budget 2xCPUx6m      a whole study with the shipped model
      autotrainer run --task math --budget 8xH100x24h --dry-run    what a budget buys and can prove
      autotrainer ui                                     the newest study in the browser
      autotrainer show n007 --diff                       what a node changed
      autotrainer export --out winner                    take the model and a TRL script home
    """
    if version:
        typer.echo(f"autotrainer {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong input, 130 interrupted."""
    sys.exit(invoke(sys.argv[1:] if arguments is None else arguments))


def invoke(arguments: Sequence[str]) -> int:
    """The exit code of a command line; errors are on standard error as one line."""
    try:
        code = typer.main.get_command(app).main(
            args=list(arguments), prog_name="autotrainer", standalone_mode=False
        )
        sys.stdout.flush()
    except BrokenPipeError:  # `autotrainer show | head`; the rest of the output has no reader
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except typer.TyperException as error:
        return _fail(_usage(error), error.exit_code, error)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130, None)
    except AutotrainerError as error:
        return _fail(str(error), 2 if isinstance(error, _USER_ERRORS) else 1, error)
    except OSError as error:
        return _fail(f"{error.strerror or error}: {error.filename or 'no file named'}", 1, error)
    except Exception as error:  # noqa: BLE001 - the process boundary: a defect is one line too
        hint = "set AUTOTRAINER_DEBUG=1 to see where"
        return _fail(f"unexpected {type(error).__name__}: {error} ({hint})", 1, error)
    return code if isinstance(code, int) else 0


def _usage(error: typer.TyperException) -> str:
    """The message of a wrong command line, with what is allowed in that place."""
    message, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if context is None:
        return message
    if message.startswith("No such command"):
        known = [name for name, item in context.command.commands.items() if not item.hidden]
        message = message.partition(" Did you mean")[0].rstrip(".")
        asked = message.rpartition("'")[0].rpartition("'")[2]
        return f"{message}: known are {', '.join(known)}{did_you_mean(asked, known)}"
    if message.startswith("No such option"):
        options = [name for item in context.command.params for name in item.opts if name.startswith("--")]
        message = message.partition(" (")[0]
        hint = did_you_mean(message.rpartition(": ")[2].split()[-1].strip("'"), options)
        return f"{message}: {context.command_path} takes {', '.join(options)}{hint}"
    return f"{message}; see {context.command_path} --help"


def _fail(message: str, code: int, error: BaseException | None) -> int:
    if error is not None and os.environ.get("AUTOTRAINER_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    sys.stderr.write(f"autotrainer: {' '.join(message.split())}\n")
    return code
