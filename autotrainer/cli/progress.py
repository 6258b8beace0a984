"""Progress of a running study: a live picture on a terminal, calm lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import typer

from autotrainer.cli.lines import event_line

if TYPE_CHECKING:
    from autotrainer.study.view import StudyView


class Progress(Protocol):
    """Where a study's progress goes; a context manager."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; the terminal is as it was."""

    def say(self, text: str) -> None:
        """One line for the user."""

    def tick(self, view: StudyView) -> None:
        """The study as it is now."""


class LineProgress:
    """One line an event that matters to a person; safe for log files and pipes."""

    def __init__(self, *, to_stderr: bool = False, seen: int = 0) -> None:
        """Lines to standard output, or to standard error; the first `seen` events have no line."""
        self._to_stderr = to_stderr
        self._started = time.monotonic()
        self._seen = seen

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""

    def say(self, text: str) -> None:
        """One line with the time since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        typer.echo(f"{minutes:3d}:{seconds:02d}  {text}", err=self._to_stderr)
        (sys.stderr if self._to_stderr else sys.stdout).flush()

    def tick(self, view: StudyView) -> None:
        """The events since the last tick."""
        for event in view.events[self._seen :]:
            line = event_line(event, view)
            if line is not None:
                self.say(line)
        self._seen = len(view.events)


class SimulatedProgress:
    """One line an event with the study's own clock, each marked SIMULATED."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        """Lines to standard output, or to standard error."""
        self._to_stderr = to_stderr
        self._seen = 0

    def tick(self, view: StudyView) -> None:
        """The events since the last tick."""
        started = view.last("study_started")
        for event in view.events[self._seen :]:
            line = event_line(event, view)
            if line is not None:
                seconds = event.time - started.time if started is not None else 0.0
                hours, minutes = divmod(int(seconds // 60), 60)
                typer.echo(f"SIMULATED {hours:3d}:{minutes:02d}  {line}", err=self._to_stderr)
        self._seen = len(view.events)


class LiveProgress:
    """The run tree, redrawn in place."""

    def __init__(self) -> None:
        """A picture that is not shown yet."""
        from rich.console import Console
        from rich.live import Live

        self._console = Console()
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._setting_up = True

    def __enter__(self) -> Self:
        """Take the terminal."""
        self._live.start()
        self._wait("setting up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""
        self._live.stop()

    def say(self, text: str) -> None:
        """One line above the picture."""
        self._console.print(text, markup=False, highlight=False)
        if self._setting_up:
            self._wait(text)

    def _wait(self, text: str) -> None:
        """A bar for a step whose length nobody knows, with the time it has taken."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(24), TimeElapsedColumn())
        bar = Progress(*columns, console=self._console, auto_refresh=False)
        bar.add_task(text, total=None)
        self._live.update(bar)

    def tick(self, view: StudyView) -> None:
        """Redraw."""
        from autotrainer.ui.terminal import live_renderable

        self._setting_up = False
        self._live.update(live_renderable(view, time.time()))


def choose_progress(*, json_output: bool, seen: int) -> Progress:
    """The live picture on a terminal; lines elsewhere, on standard error where JSON is printed."""
    if sys.stdout.isatty() and not json_output:
        return LiveProgress()
    return LineProgress(to_stderr=json_output, seen=seen)
