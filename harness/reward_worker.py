"""One worker of the reward pool: calls a user's function, and may hang or die. Standard library only.

Run as a file, by any interpreter: `python reward_worker.py FILE FUNCTION`. One JSON line in, one out.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

VERL = ("data_source", "solution_str", "ground_truth")


def load(path: str, name: str) -> Callable[..., Any]:
    """Return a function of a file.

    Raises:
        ValueError: the file cannot be loaded or has no such function.
    """
    spec = importlib.util.spec_from_file_location("user_reward", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_reward"] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None or not callable(function):
        raise ValueError(f"{path} has no function {name}")
    return function


def is_verl(function: Callable[..., Any]) -> bool:
    """Return whether a function has verl's signature: one completion a call."""
    return set(VERL) <= set(inspect.signature(function).parameters)


def call(function: Callable[..., Any], request: dict[str, Any]) -> list[Any]:
    """Return the function's values for the completions of a request, in TRL's or verl's form."""
    columns, texts = request["columns"], request["completions"]
    if is_verl(function):
        known = inspect.signature(function).parameters
        values = []
        for index, text in enumerate(texts):
            row = {key: column[index] for key, column in columns.items()}
            info = {"extra_info": row} if "extra_info" in known else {}
            values.append(
                function(data_source=request["task"], solution_str=text, ground_truth=row["answer"], **info)
            )
        return [_score(_result(value)) for value in values]
    messages = [[{"role": "assistant", "content": text}] for text in texts]
    given = {"prompts": request["prompts"], "completions": messages, **columns}
    given["completion_ids"] = request["completion_ids"]
    parameters = inspect.signature(function).parameters.values()
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        given = {one.name: given[one.name] for one in parameters if one.name in given}
    return list(_result(function(**given)))


def _result(value: Any) -> Any:
    """The value behind a coroutine."""

    async def wait() -> Any:
        return await value

    return asyncio.run(wait()) if inspect.isawaitable(value) else value


def _score(value: Any) -> Any:
    return value.get("score") if isinstance(value, dict) else value


def plain(value: Any) -> float | None:
    """Return a number, also one of numpy or torch, or None for None.

    Raises:
        TypeError: it is neither.
    """
    if value is None:
        return None
    if isinstance(value, str):
        raise TypeError(f"returned {value!r}: need a number or None for each completion")
    return float(value)


def main() -> int:
    """Serve until standard input closes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        function = load(sys.argv[1], sys.argv[2])
    except Exception as error:  # noqa: BLE001 - the boundary to a user's file
        answers.write(json.dumps({"fatal": f"{type(error).__name__}: {error}"}) + "\n")
        return 1
    answers.write(json.dumps({"ready": True, "verl": is_verl(function)}) + "\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            values = [plain(value) for value in call(function, request)]
            wanted = len(request["completions"])
            if len(values) != wanted:
                raise ValueError(f"returned {len(values)} values for {wanted} completions")
            answer: dict[str, Any] = {"values": [repr(value) for value in values]}
        except Exception as error:  # noqa: BLE001 - the boundary to a user's function
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
