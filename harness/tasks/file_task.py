"""Tasks without code: `file:DATA?template=...&answer=...&verifier=...`, `hub:OWNER/NAME?...` and `gym:NAME`.

The name holds everything that the verifier needs, so that a job needs neither the file nor its neighbours.
A TOML file beside the data (`data.toml` for `data.jsonl`) gives what the name leaves out.
"""

import json
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from harness.tasks.api import Item, Verdict
from harness.tasks.fixed import FixedTask
from harness.tasks.pool import PooledTask, normalised
from harness.tasks.rows import SUFFIXES, hub_rows, read_rows

DEFAULTS = {
    "template": "{question}",
    "answer": "answer",
    "verifier": "exact",
    "max_completion_length": "64",
    "licence": "the data's own",
    "subset": "",
    "split": "train",
}


def parse_name(name: str) -> tuple[str, str, dict[str, str]]:
    """Return kind (`file` or `hub`), place and options of a name; options left out have their defaults.

    Raises:
        ValueError: an option is unknown or the length is no number of tokens.
    """
    kind, _, rest = name.partition(":")
    place, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(options) - set(DEFAULTS)):
        raise ValueError(f"{name}: unknown option {unknown[0]!r}; known: {', '.join(sorted(DEFAULTS))}")
    options = DEFAULTS | options
    if not options["max_completion_length"].isdigit() or int(options["max_completion_length"]) < 1:
        raise ValueError(
            f"{name}: max_completion_length = {options['max_completion_length']!r} must be at least 1"
        )
    return kind, place, options


def full_name(name: str) -> str:
    """Return a `file:` or `hub:` name with an absolute path and every option written out.

    Raises:
        ValueError: the file is not there, its suffix or an option is unknown.
    """
    kind, place, options = parse_name(name)
    given = dict(parse_qsl(name.partition("?")[2], keep_blank_values=True))
    if kind == "file":
        path = Path(place).expanduser().resolve()
        if not path.is_file():
            raise ValueError(f"there is no file {path}")
        if path.suffix not in SUFFIXES:
            raise ValueError(f"{path}: unknown suffix {path.suffix!r}; known: {', '.join(SUFFIXES)}")
        beside = path.with_suffix(".toml")
        if beside.is_file():
            table = {
                key: str(value) for key, value in tomllib.loads(beside.read_text(encoding="utf-8")).items()
            }
            _, _, options = parse_name(f"{kind}:{place}?{urlencode(table | given)}")
        place = str(path)
    return f"{kind}:{place}?{urlencode(options, quote_via=quote)}"


def data_task(name: str) -> FixedTask:
    """Return the task behind a `file:` or `hub:` name; no data is read yet.

    Raises:
        ValueError: an option or the verifier is unknown.
    """
    kind, place, options = parse_name(name)

    def rows() -> Sequence[Mapping[str, object]]:
        if kind == "file":
            return read_rows(Path(place))
        return hub_rows(place, options["subset"] or None, options["split"].split(","))

    return FixedTask(
        name,
        rows,
        template=options["template"],
        answer=options["answer"],
        verifier_name=options["verifier"],
        where=place,
    )


class GymTask(PooledTask):
    """Any data set of reasoning-gym (Stojanovski et al. 2025, arXiv:2505.24760), scored by its own scorer.

    Its partial credit (such as 0.01 for any text) counts as wrong: the metric is full marks or nothing.
    """

    def __init__(self, name: str) -> None:
        """Set the task up.

        Raises:
            ValueError: reasoning-gym is not installed or has no such data set.
        """
        self.name, self._set = f"gym:{name}", name
        try:
            from reasoning_gym.factory import DATASETS
        except ImportError:
            raise ValueError("gym: tasks need reasoning-gym: pip install 'autotrainer[train]'") from None
        if name not in DATASETS:
            near = [known for known in sorted(DATASETS) if name[:4] in known] or sorted(DATASETS)
            raise ValueError(f"reasoning-gym has no data set {name!r}; some it has: {', '.join(near[:8])}")
        self._scorer: Any = None

    def _data(self, seed: int, size: int) -> Any:
        from reasoning_gym import create_dataset

        return create_dataset(self._set, seed=seed, size=size)

    def stream(self, seed: str) -> Iterator[Item]:
        """Yield entries in blocks of 500 under ever new seeds."""
        rng = random.Random(seed)
        while True:
            for entry in self._data(rng.randrange(2**31), 500):
                if isinstance(entry["answer"], str):
                    prompt = [{"role": "user", "content": str(entry["question"])}]
                    columns = {
                        "key": normalised(str(entry["question"])),
                        "metadata": json.dumps(entry["metadata"], default=str),
                    }
                    yield Item.of(prompt, entry["answer"], columns)

    def verify(self, completion: str, answer: str, columns: Mapping[str, object]) -> Verdict:
        """Return 1 where the data set's own scorer gives full marks."""
        if self._scorer is None:
            self._scorer = self._data(0, 1)
        try:
            entry = {"question": "", "answer": answer, "metadata": json.loads(str(columns["metadata"]))}
            score = float(self._scorer.score_answer(completion.strip(), entry))
        except Exception as error:  # noqa: BLE001 - the boundary to a scorer of another project
            return Verdict(None, f"the scorer raised {type(error).__name__}: {error}")
        return Verdict(float(score >= 1.0), f"the scorer says {score:g}")

    def gold(self, item: Item) -> str:
        """Return the entry's answer."""
        return item.answer

    def known_bad(self, item: Item) -> list[str]:
        """Return no answer and a nonsense one; other texts may be right in some data sets."""
        return ["", "no idea, sorry"]
