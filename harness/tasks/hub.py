"""The tasks `gsm8k` and `math500`: word problems and competition problems from the hub."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.tasks.api import Item
from harness.tasks.fixed import FixedTask, Rows
from harness.tasks.pool import split_of
from harness.tasks.rows import hub_rows, read_rows

SAMPLES = Path(__file__).parent / "samples"
"""A few rows of our own in each data set's format: what the verifiers are checked on without a network."""


def sample_rows(name: str) -> Sequence[Mapping[str, object]]:
    """Return the shipped rows in the format of `gsm8k` or `math500`."""
    return read_rows(SAMPLES / f"{name}.jsonl")


class HubTask(FixedTask):
    """A data set whose published test rows stay in holdout and test: no other split ever has one."""

    def _item(self, row: Mapping[str, object], number: int) -> Item:
        item = super()._item(row, number)
        return Item.of(
            item.prompt, item.answer, {**item.columns, "official": str(row.get("official", "train"))}
        )

    def split(self, item: Item) -> str:
        """Return holdout or test for a published test row, else what the content's hash says, but test."""
        key = self.canonical(item)
        if item.columns.get("official") == "test":
            return "test" if split_of(self.name, key) != "holdout" else "holdout"
        found = split_of(self.name, key)
        return "train" if found in ("holdout", "test") else found


class Gsm8kTask(HubTask):
    """Grade-school word problems (Cobbe et al. 2021, arXiv:2110.14168); the answer stands after `####`."""

    def __init__(self, rows: Rows | None = None) -> None:
        """Set the task up; `rows` replaces the hub's."""
        super().__init__(
            "gsm8k",
            rows or _gsm8k_rows,
            template="{question}\nEnd with #### and the number.",
            answer="answer",
            verifier_name="final_number",
            where="openai/gsm8k",
        )

    def extract(self, row: Mapping[str, object]) -> str:
        """Return the number after the last `####`."""
        return str(row["answer"]).rpartition("####")[2].strip().replace(",", "")


def _gsm8k_rows() -> Sequence[Mapping[str, object]]:
    return [
        {**row, "official": split}
        for split in ("train", "test")
        for row in hub_rows("openai/gsm8k", "main", [split])
    ]


class Math500Task(FixedTask):
    """500 problems of MATH (Hendrycks et al. 2021; Lightman et al. 2023), for all five splits."""

    def __init__(self, rows: Rows | None = None) -> None:
        """Set the task up; `rows` replaces the hub's."""
        super().__init__(
            "math500",
            rows or (lambda: hub_rows("HuggingFaceH4/MATH-500", None, ["test"])),
            template="{problem}\nPut the final answer in \\boxed{{}}.",
            answer="answer",
            verifier_name="math",
            where="HuggingFaceH4/MATH-500",
        )
