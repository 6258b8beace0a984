"""The tasks a study can train on, and their verifiers. Frozen: a job that changes them is invalid."""

from harness.tasks.registry import load, names

__all__ = ["load", "names"]
