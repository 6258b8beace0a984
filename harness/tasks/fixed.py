"""FixedTask: rows of a file or a data set, a template for the prompt, and a verifier by name."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from harness.tasks.api import Item, Verdict
from harness.tasks.pool import PooledTask, normalised
from harness.tasks.verifiers import verifier

Rows = Callable[[], Sequence[Mapping[str, object]]]

REWORDINGS = ("Consider this question.\n\n{}", "{}\n\nThink before you answer.", "Question: {}\nAnswer it.")


class FixedTask(PooledTask):
    """Items from rows; the rows are read when first needed, the verifier needs none of them."""

    def __init__(
        self, name: str, rows: Rows, *, template: str, answer: str, verifier_name: str, where: str = "rows"
    ) -> None:
        """Set the task up; nothing is read.

        Raises:
            ValueError: there is no such verifier.
        """
        self.name, self._rows, self._template, self._answer = name, rows, template, answer
        self._verifier, self._where = verifier(verifier_name), where
        self._items: list[Item] | None = None

    def items(self) -> list[Item]:
        """Return every item; rows with one question keep the first.

        Raises:
            ValueError: a row lacks a column that template or answer names, or two equal questions disagree.
        """
        if self._items is None:
            found: dict[str, Item] = {}
            for number, row in enumerate(self._rows(), start=1):
                item = self._item(row, number)
                before = found.setdefault(str(item.columns["key"]), item)
                if before.answer != item.answer:
                    raise ValueError(
                        f"{self._where} row {number}: a question has the answers {before.answer!r} and "
                        f"{item.answer!r}; correct one"
                    )
            self._items = list(found.values())
        return self._items

    def _item(self, row: Mapping[str, object], number: int) -> Item:
        try:
            question, answer = self._template.format_map(dict(row)), self.extract(row)
        except KeyError as error:
            raise ValueError(
                f"{self._where} row {number} lacks {error.args[0]!r}; it has {', '.join(map(str, row))}"
            ) from None
        return Item.of([{"role": "user", "content": question}], answer, {"key": normalised(question)})

    def extract(self, row: Mapping[str, object]) -> str:
        """Return the answer in a row."""
        return str(row[self._answer]).strip()

    def stream(self, seed: str) -> Iterator[Item]:
        """Yield every item once, shuffled."""
        items = list(self.items())
        random.Random(seed).shuffle(items)
        yield from items

    def verify(self, completion: str, answer: str, columns: Mapping[str, object]) -> Verdict:
        """Return what the named verifier says."""
        return self._verifier.judge(completion, answer)

    def gold(self, item: Item) -> str:
        """Return the answer in the form that the verifier asks for."""
        return self._verifier.gold(item.answer)

    def known_bad(self, item: Item) -> list[str]:
        """Return what the named verifier has to refuse."""
        return [text for text in self._verifier.bad(item.answer) if text != self.gold(item)]

    def perturb(self, item: Item, seed: int) -> Item:
        """Return the same question in another frame: fixed data has no generator to draw anew from."""
        frame = random.Random(f"{item.id}:{seed}").choice(REWORDINGS)
        prompt = [*item.prompt[:-1], {"role": "user", "content": frame.format(item.prompt[-1]["content"])}]
        return Item.of(prompt, item.answer, item.columns)
