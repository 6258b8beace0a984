"""The task `logic`: Knights and Knaves. Knights tell the truth, knaves lie; each puzzle has one solution."""

import random
from collections.abc import Iterator, Mapping
from itertools import product

from harness.tasks.api import Item, Verdict
from harness.tasks.pool import PooledTask

NAMES = "ABCD"
Claim = tuple[int, str, int, int]
"""Who says it; `is`: x is a knight (y = 1) or a knave (0); `same`, `differ`: x and y are alike or not."""


def holds(claim: Claim, world: tuple[bool, ...]) -> bool:
    """Return whether what is claimed is true in a world (person: is a knight)."""
    _, kind, x, y = claim
    if kind == "is":
        return world[x] == bool(y)
    return (world[x] == world[y]) if kind == "same" else (world[x] != world[y])


def solutions(claims: list[Claim], people: int) -> list[tuple[bool, ...]]:
    """Return every world in which knights' claims are true and knaves' false."""
    worlds = product((True, False), repeat=people)
    return [world for world in worlds if all(holds(claim, world) == world[claim[0]] for claim in claims)]


def say(claim: Claim) -> str:
    """Return the claim in words."""
    who, kind, x, y = claim
    if kind == "is":
        said = f"{NAMES[x]} is a {'knight' if y else 'knave'}"
    else:
        said = f"{NAMES[x]} and {NAMES[y]} are {'alike' if kind == 'same' else 'different'}"
    return f"{NAMES[who]}: {said}."


class LogicTask(PooledTask):
    """Two to four people with one claim each; the answer is a letter each, T knight, L knave."""

    name = "logic"

    def stream(self, seed: str) -> Iterator[Item]:
        """Yield puzzles with exactly one solution, without end."""
        rng = random.Random(seed)
        while True:
            people = rng.randint(2, len(NAMES))
            claims = [self._claim(rng, who, people) for who in range(people)]
            found = solutions(claims, people)
            if len(found) == 1:
                yield self._item(claims, found[0])

    @staticmethod
    def _claim(rng: random.Random, who: int, people: int) -> Claim:
        others = [person for person in range(people) if person != who]
        kind = rng.choice(("is", "same", "differ"))
        if kind == "is":
            return who, kind, rng.choice(others), rng.randint(0, 1)
        x, y = sorted((who, rng.choice(others)))
        return who, kind, x, y

    @staticmethod
    def _item(claims: list[Claim], world: tuple[bool, ...]) -> Item:
        text = " ".join(say(claim) for claim in claims)
        prompt = [
            {
                "role": "user",
                "content": f"{text} Knights (T) tell the truth, knaves (L) lie. {NAMES[: len(world)]}=?",
            }
        ]
        answer = "".join("T" if knight else "L" for knight in world)
        return Item.of(prompt, answer, {"level": f"people_{len(world)}", "key": text})

    def verify(self, completion: str, answer: str, columns: Mapping[str, object]) -> Verdict:
        """Return 1 for the right letters and nothing else; two assignments in one completion are wrong."""
        same = completion.strip() == answer
        return Verdict(float(same), "correct" if same else "another assignment")

    def gold(self, item: Item) -> str:
        """Return the letters."""
        return item.answer

    def known_bad(self, item: Item) -> list[str]:
        """Return other assignments, all of them at once, and the right one in more text."""
        n = len(item.answer)
        worlds = ["".join(world) for world in product("TL", repeat=n)]
        others = [world for world in worlds if world != item.answer]
        return ["", *others[:4], " ".join(worlds), f"{item.answer}.", item.answer + "T", item.answer[:-1]]
