"""The command line: one file a command group; everything heavy is imported inside the commands."""

from autotrainer.cli.app import main

__all__ = ["main"]
