"""Whose fault an exception is: the recipe's or the patch's (failed), or the machine's (crashed)."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path
from typing import Any

from harness.contract import ContractError

SIGNAL = "SIGTERM"
_MACHINE = ("CUDA error", "CUDNN_STATUS", "cuDNN error", "NCCL", "/gloo/", "ECC error", "We couldn't connect")
_MACHINE_ERRNOS = (
    errno.ENOSPC,
    errno.EIO,
    errno.ENOMEM,
    errno.EDQUOT,
    errno.ESTALE,
    errno.ENODEV,
    errno.EMFILE,
)


class FrozenFileError(Exception):
    """A frozen file is not what it was."""


class StopAskedError(Exception):
    """The job was asked to stop before its training had begun."""


class StopFlag:
    """Set by a signal handler, read by the job: 1 asks for a checkpoint and an end, 2 for the end alone."""

    def __init__(self) -> None:
        """Nothing was asked."""
        self.count = 0

    def raise_if_set(self) -> None:
        """Leave a job that has not begun to train.

        Raises:
            StopAskedError: the job was asked to stop.
        """
        if self.count:
            raise StopAskedError(SIGNAL)


def is_machine_fault(error: BaseException) -> bool:
    """Whether the same job may succeed elsewhere: the disk, the host's memory, the driver, the network.

    A GPU that is out of memory is the recipe's fault, it would be so elsewhere; so is an assertion on the
    GPU, which is how non-finite probabilities show there.
    """
    if type(error).__name__ == "OutOfMemoryError" or "device-side assert" in str(error):
        return False
    if isinstance(error, MemoryError | ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
        return True
    return isinstance(error, RuntimeError | OSError) and any(mark in str(error) for mark in _MACHINE)


def failure_of(error: BaseException, workspace: Path) -> dict[str, Any]:
    """The failure as result.json has it.

    The file is the one at fault: the deepest frame in an editable file (hooks/, rewards/), else the deepest
    one in the workspace, relative to it. A ContractError has none: its message names the field.
    """
    failure: dict[str, Any] = {
        "type": type(error).__name__,
        "message": str(error)[:4000] or type(error).__name__,
        "file": None,
        "line": None,
    }
    if isinstance(error, ContractError):
        return failure
    if (named := getattr(error, "file", None)) and Path(named).is_relative_to(workspace):
        # A hook that returned what is not allowed has left its own frame already.
        return failure | {
            "file": Path(named).relative_to(workspace).as_posix(),
            "line": getattr(error, "line", None),
        }
    frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if path.is_relative_to(workspace):
            frames.append((path.relative_to(workspace), frame.lineno))
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(workspace):
        frames.append((Path(error.filename).relative_to(workspace), error.lineno))
    editable = [
        (path, line)
        for path, line in frames
        if path.parts[:2] in (("harness", "hooks"), ("harness", "rewards")) and path.name != "api.py"
    ]
    for path, line in (editable or frames)[-1:]:
        failure |= {"file": path.as_posix(), "line": line}
    return failure
