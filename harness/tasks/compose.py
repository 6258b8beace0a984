"""The task `compose`: apply string functions one after the other, as `f(g(abc))=?`; depth is the knob."""

import random
from collections.abc import Callable, Iterator, Mapping

from harness.tasks.api import Item, Verdict
from harness.tasks.pool import PooledTask

FUNCTIONS: dict[str, Callable[[str], str]] = {
    "rev": lambda s: s[::-1],
    "dup": lambda s: s + s[-1],
    "tail": lambda s: s[1:] + s[0],
    "swap": lambda s: s[-1] + s[1:-1] + s[0],
    "id": lambda s: s,
}
LETTERS = "abcd"
MAX_DEPTH = 3


class ComposeTask(PooledTask):
    """A composition of one to three named functions on a short word; the answer is the word that results."""

    name = "compose"

    def stream(self, seed: str) -> Iterator[Item]:
        """Yield compositions without end, all depths alike."""
        rng = random.Random(seed)
        while True:
            depth = rng.randint(1, MAX_DEPTH)
            names = [rng.choice(sorted(FUNCTIONS)) for _ in range(depth)]
            word = "".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 5)))
            yield self.item(names, word)

    def item(self, names: list[str], word: str) -> Item:
        """Return the item `names[0](names[1](...word))`."""
        value = word
        for name in reversed(names):
            value = FUNCTIONS[name](value)
        text = "".join(f"{name}(" for name in names) + word + ")" * len(names)
        prompt = [{"role": "user", "content": f"{text}=?"}]
        return Item.of(prompt, value, {"level": f"depth_{len(names)}", "key": text})

    def verify(self, completion: str, answer: str, columns: Mapping[str, object]) -> Verdict:
        """Return 1 for the word itself, stripped of white space, else 0."""
        same = completion.strip() == answer
        return Verdict(float(same), "correct" if same else "another word")

    def gold(self, item: Item) -> str:
        """Return the word."""
        return item.answer

    def known_bad(self, item: Item) -> list[str]:
        """Return near misses and answers wrapped in more text."""
        question, answer = item.prompt[-1]["content"], item.answer
        return ["", f"{answer}a", answer[:-1], f"{answer} {answer}", f"The answer is {answer}", question]
