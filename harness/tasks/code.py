"""The task `code`: write a Python function; hidden tests run in a sandbox that never sees what they expect.

The candidate is called on the inputs and its outputs are compared outside of the sandbox: it can neither
print the expected output nor override `==`, and leaving early yields nothing.
"""

import ast
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.tasks.api import Item, Verdict
from harness.tasks.pool import PooledTask, normalised
from sandboxes.functions import call_function

_FENCE = re.compile(r"```(?:python|py)?\s*\n(.*?)```", re.DOTALL)

SHAPES: dict[str, tuple[str, Callable[[int, int, int], int]]] = {
    "add": ("x+{a}", lambda x, a, b: x + a),
    "scale": ("x*{a}", lambda x, a, b: x * a),
    "affine": ("x*{a}+{b}", lambda x, a, b: x * a + b),
    "mod": ("x%{a}", lambda x, a, b: x % a),
    "larger": ("max(x,{a})", lambda x, a, b: max(x, a)),
}


def program_of(completion: str) -> str:
    """Return the code in a completion: the last fenced block, or the whole text where there is none."""
    blocks = _FENCE.findall(completion)
    return blocks[-1] if blocks else completion


def cases_of(tests: str, function: str) -> list[tuple[list[Any], Any]] | None:
    """Return (arguments, expected) of `assert f(...) == literal` tests, as MBPP's and HumanEval's `check`.

    None where a test is anything else: it would have to run beside the code it judges, and could be fooled.
    """
    cases: list[tuple[list[Any], Any]] = []
    for node in ast.walk(ast.parse(tests)):
        if not isinstance(node, ast.Assert):
            continue
        test = node.test
        if not (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], ast.Eq)
            and isinstance(test.left, ast.Call)
            and isinstance(test.left.func, ast.Name)
            and test.left.func.id in (function, "candidate")
            and not test.left.keywords
        ):
            return None
        try:
            arguments = [ast.literal_eval(argument) for argument in test.left.args]
            cases.append((arguments, ast.literal_eval(test.comparators[0])))
        except ValueError:
            return None
    return cases or None


class CodeTask(PooledTask):
    """Function synthesis. Procedural without data; `humaneval` and `mbpp` rows make tasks of their own."""

    audit_items = 8
    """Items of a split whose known answers the audit runs: each is a program in a sandbox."""

    def __init__(self, name: str = "code", rows: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Set the task up; with rows, in HumanEval's or MBPP's format, those are the items."""
        self.name, self._rows = name, rows
        self.dropped = 0
        """Rows whose tests cannot be judged from outside."""

    def stream(self, seed: str) -> Iterator[Item]:
        """Yield problems: without end where procedural, else each row once."""
        rng = random.Random(seed)
        if self._rows is None:
            while True:
                yield self._procedural(rng)
        items = [item for row in self._rows if (item := self.from_row(row)) is not None]
        self.dropped = len(self._rows) - len(items)
        rng.shuffle(items)
        yield from items

    @staticmethod
    def _procedural(rng: random.Random) -> Item:
        level = rng.choice(sorted(SHAPES))
        a, b = rng.randint(2, 40), rng.randint(1, 20)
        text, function = SHAPES[level]
        body = text.format(a=a, b=b)
        inputs = [*range(-3, 4), *(rng.randint(-99, 99) for _ in range(5))]
        cases = [[[x], function(x, a, b)] for x in inputs]
        shown = ", ".join(f"f({x})={function(x, a, b)}" for x in (0, 1, 7, 50))
        prompt = [{"role": "user", "content": f"{shown}. Write f(x) in Python."}]
        columns = {"function": "f", "tests": json.dumps(cases), "level": level, "key": body}
        return Item.of(prompt, f"def f(x): return {body}", columns)

    def from_row(self, row: Mapping[str, Any]) -> Item | None:
        """Return the item of a HumanEval row (prompt, entry_point, test) or an MBPP row (text, test_list)."""
        if "entry_point" in row:
            function, tests = str(row["entry_point"]), str(row["test"])
            question, solution = str(row["prompt"]), f"{row['prompt']}{row['canonical_solution']}"
            ask = f"Complete this function and give all of it.\n{question}"
        else:
            tests = "\n".join(str(test) for test in row["test_list"])
            found = re.search(r"assert\s+(\w+)\(", tests)
            if found is None:
                return None
            function, solution = found[1], str(row["code"])
            question = str(row.get("text") or row.get("prompt"))
            ask = f"{question}\nThe function is called {function}."
        cases = cases_of(tests, function)
        if cases is None:
            return None
        columns = {"function": function, "tests": repr(cases), "key": normalised(question), "level": "row"}
        return Item.of([{"role": "user", "content": ask}], solution, columns)

    def verify(self, completion: str, answer: str, columns: Mapping[str, object]) -> Verdict:
        """Return 1 if the function gives what is expected on every hidden input, else 0.

        A sandbox that does not work makes the completion unscorable.
        """
        try:
            cases = ast.literal_eval(str(columns["tests"]))
        except (ValueError, SyntaxError, KeyError) as error:
            return Verdict(None, f"the tests cannot be read: {error}")
        inputs = [case[0] for case in cases]
        outcome = call_function(program_of(completion), str(columns["function"]), inputs)
        if outcome.values is None:
            return Verdict(None if outcome.sandbox_failed else 0.0, outcome.reason)
        wrong = sum(not _equal(value, case[1]) for value, case in zip(outcome.values, cases, strict=True))
        return Verdict(float(wrong == 0), "correct" if wrong == 0 else f"{wrong} of {len(cases)} tests fail")

    def gold(self, item: Item) -> str:
        """Return the reference solution."""
        return item.answer

    def known_bad(self, item: Item) -> list[str]:
        """Return programs that do nothing, leave early, print, or fake equality."""
        name = item.columns["function"]
        return [
            "",
            f"def {name}(*a): return None",
            f"import os\ndef {name}(*a): os._exit(0)",
            f"class E(int):\n    def __eq__(s, o): return True\ndef {name}(*a): return E()",
        ]


def _equal(value: object, expected: object) -> bool:
    """Same type and value; floats to a part in a million."""
    if isinstance(expected, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value - expected) <= 1e-6 * max(1.0, abs(expected))
    return type(value) is type(expected) and value == expected
