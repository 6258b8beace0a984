"""Call an untrusted Python function on inputs; only plain values come back, and nothing expected goes in."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sandboxes.broker import run
from sandboxes.program import Ending, Limits, Program, SandboxError

LIMITS = Limits(wall_s=5.0, cpu_s=4, memory_mib=256, processes=8, file_mib=4, output_bytes=262_144)

_RUNNER = """
import ast, os, sys
source, name, inputs = ast.literal_eval(sys.stdin.read())
out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
os.dup2(2, 1)
PLAIN = (int, float, bool, str, bytes, type(None), complex)
def plain(v):
    t = type(v)
    if t in PLAIN: return repr(v)
    if t is list: return "[" + ",".join(map(plain, v)) + "]"
    if t is tuple: return "(" + "".join(plain(x) + "," for x in v) + ")"
    if t is set: return "{" + ",".join(map(plain, v)) + "}" if v else "'<empty set>'"
    if t is dict: return "{" + ",".join(plain(k) + ":" + plain(x) for k, x in v.items()) + "}"
    raise TypeError("not a plain value: " + t.__name__)
space = {"__name__": "candidate"}
exec(compile(source, "candidate.py", "exec"), space)
values = [plain(space[name](*arguments)) for arguments in inputs]
out.write("\\nVALUES [" + ",".join(values) + "]\\n")
out.flush()
"""


@dataclass(frozen=True, slots=True)
class Called:
    """One value an input, or None with the reason; `sandbox_failed` where that is not the program's fault."""

    values: list[Any] | None
    reason: str
    sandbox_failed: bool = False


def call_function(
    source: str, function: str, inputs: Sequence[Sequence[Any]], limits: Limits = LIMITS
) -> Called:
    """Run `source` in the sandbox and call `function` on each tuple of arguments."""
    request = repr((source, function, [list(arguments) for arguments in inputs]))
    program = Program((sys.executable, "-I", "-c", _RUNNER), stdin=request.encode("utf-8", "replace"))
    try:
        outcome = run(program, limits)
    except SandboxError as error:
        return Called(None, f"the sandbox failed: {error}", sandbox_failed=True)
    if outcome.ending is not Ending.EXITED:
        return Called(None, f"killed: {outcome.ending}")
    _, found, tail = outcome.stdout.decode("utf-8", "replace").rpartition("VALUES ")
    if not found:
        last = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        return Called(None, last or f"exit code {outcome.exit_code} without an answer")
    try:
        values = ast.literal_eval(tail.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return Called(None, "the answer is not plain values")
    if not isinstance(values, list) or len(values) != len(inputs):
        return Called(None, "not one value an input")
    return Called(values, "ran")
