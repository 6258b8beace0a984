"""The task `math`: integer arithmetic in five levels, from `12+7=?` to `4+19+8=?`."""

import hashlib
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from harness.tasks.api import SPLITS, Item, Verdict

LEVELS = ("add_small", "subtract", "add_two_digit", "multiply", "add_three")

# Cumulative shares of the hash space, in thousandths. They are part of the task: moving a boundary would let
# items that the shipped model was warmed up on into dev, holdout or test.
_BUCKETS = (("train", 600), ("probe", 640), ("dev", 760), ("holdout", 880), ("test", 1000))

_INTEGER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, slots=True)
class _Expression:
    level: str
    text: str
    value: int
    key: str


def _expressions(level: str) -> Iterator[_Expression]:
    """Yield every expression of a level once; no expression is in two levels."""
    if level == "add_small":
        for a in range(25):
            for b in range(25):
                yield _Expression(level, f"{a}+{b}", a + b, _commuted("+", a, b))
    elif level == "subtract":
        for a in range(61):
            for b in range(a + 1):
                yield _Expression(level, f"{a}-{b}", a - b, f"{a}-{b}")
    elif level == "add_two_digit":
        for a in range(25, 80):
            for b in range(25, 80):
                yield _Expression(level, f"{a}+{b}", a + b, _commuted("+", a, b))
    elif level == "multiply":
        for a in range(2, 25):
            for b in range(2, 25):
                yield _Expression(level, f"{a}*{b}", a * b, _commuted("*", a, b))
    elif level == "add_three":
        for a in range(1, 14):
            for b in range(1, 14):
                for c in range(1, 14):
                    yield _Expression(level, f"{a}+{b}+{c}", a + b + c, _commuted("+", a, b, c))
    else:
        raise ValueError(f"unknown level {level!r}; known: {', '.join(LEVELS)}")


def _commuted(operator: str, *operands: int) -> str:
    return operator.join(str(operand) for operand in sorted(operands))


def _bucket(key: str) -> str:
    share = int.from_bytes(hashlib.sha256(f"math:{key}".encode()).digest()[:8]) % 1000
    return next(split for split, bound in _BUCKETS if share < bound)


@cache
def _pool(split: str, level: str) -> tuple[_Expression, ...]:
    return tuple(expression for expression in _expressions(level) if _bucket(expression.key) == split)


def _item(expression: _Expression) -> Item:
    prompt = ({"role": "user", "content": f"{expression.text}=?"},)
    return Item.of(prompt, str(expression.value), {"level": expression.level})


def items_of(split: str) -> list[Item]:
    """Return every item of a split, level by level; a warm-up may use no split but train."""
    return [_item(expression) for level in LEVELS for expression in _pool(split, level)]


class ArithmeticTask:
    """Sums, differences and products of small integers; the answer is the integer and nothing else.

    A split is balanced over the levels as far as their items go. Expressions that differ in the order of
    their terms or factors are different items of one split.
    """

    name = "math"

    def splits(self, sizes: Mapping[str, int], seed: int) -> dict[str, list[Item]]:
        """Return sizes[split] items for each split named; see `Task.splits`."""
        unknown = sorted(set(sizes) - set(SPLITS))
        if unknown:
            raise ValueError(f"unknown splits {unknown}; known: {', '.join(SPLITS)}")
        return {split: self._choose(split, size, seed) for split, size in sizes.items()}

    def _choose(self, split: str, size: int, seed: int) -> list[Item]:
        pools = {level: list(_pool(split, level)) for level in LEVELS}
        available = sum(len(pool) for pool in pools.values())
        if not 0 < size <= available:
            raise ValueError(f"math: size of {split} must be between 1 and {available}, not {size}")
        rng = random.Random(f"math:{split}:{seed}")
        for pool in pools.values():
            rng.shuffle(pool)
        chosen: list[_Expression] = []
        while len(chosen) < size:
            chosen += [pool.pop() for pool in pools.values() if pool]
        items = [_item(expression) for expression in chosen[:size]]
        rng.shuffle(items)
        return items

    def verify(self, completion: str, answer: str, columns: Mapping[str, object]) -> Verdict:
        """Return 1 if the completion, stripped of white space, is the answer's decimal digits, else 0.

        An answer that is no integer makes the completion unscorable.
        """
        if not _INTEGER.fullmatch(answer):
            return Verdict(None, f"the answer {answer!r} is not an integer")
        text = completion.strip()
        if text == answer:
            return Verdict(1.0, "correct")
        if _INTEGER.fullmatch(text):
            return Verdict(0.0, "another integer")
        return Verdict(0.0, "not an integer")

    def gold(self, item: Item) -> str:
        """Return the answer's digits."""
        return item.answer

    def known_bad(self, item: Item) -> list[str]:
        """Return near misses, and completions that contain the answer without being it."""
        value = int(item.answer)
        question = item.prompt[-1]["content"]
        return [
            "",
            str(value + 1),
            str(value - 1),
            f"{value}0",
            f"{value}.5",
            f"0{value}",
            f"{value} {value + 1}",
            f"{value + 1} or {value}",
            f"The answer is {value}.",
            f"{question}{value}",
            question,
        ]

    def perturb(self, item: Item, seed: int) -> Item:
        """Return another expression of the same level and split, not the same terms in another order."""
        level, key = str(item.columns["level"]), self.canonical(item)
        others = [expression for expression in _pool(_bucket(key), level) if expression.key != key]
        return _item(random.Random(f"{item.id}:{seed}").choice(others))

    def canonical(self, item: Item) -> str:
        """Return the expression with its terms or factors sorted."""
        text = item.prompt[-1]["content"].removesuffix("=?")
        for operator in "+*":
            if operator in text:
                return _commuted(operator, *(int(operand) for operand in text.split(operator)))
        return text
