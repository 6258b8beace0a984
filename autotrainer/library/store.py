"""EvidenceStore: what skills did, across studies and processes; one SQLite file (WAL)."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from autotrainer.errors import ConfigError
from autotrainer.library.context import EvidenceContext, weight

ENVIRONMENT = "AUTOTRAINER_EVIDENCE"
PRIOR_SD = 0.03
"""Standard deviation of effects over skills, as a share of accuracy: the belief in an unseen skill."""
SEED_SD = 0.02
"""Standard deviation of a single run's score over seeds, where a row has no interval."""
HALF_LIFE_S = 180 * 86400.0
"""Age at which a row counts half."""
_COLUMNS = "skill, task, band, weights, finding, effect, low, high, seeds, device_s, study, node, time"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS evidence (
    skill TEXT NOT NULL, task TEXT NOT NULL, band TEXT NOT NULL, weights TEXT NOT NULL, finding TEXT NOT NULL,
    effect REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, seeds INTEGER NOT NULL,
    device_s REAL NOT NULL, study TEXT NOT NULL, node TEXT NOT NULL, time REAL NOT NULL,
    UNIQUE (study, node, skill, finding)
)"""


class EvidenceRow(BaseModel):
    """One trial of a skill: the change of the dev score against its control, with a 95 % interval."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    skill: str
    task: str
    band: str
    weights: str
    finding: str
    effect: float
    low: float
    high: float
    seeds: int
    device_s: float
    study: str
    node: str
    time: float

    @property
    def context(self) -> EvidenceContext:
        """Where it was seen."""
        return EvidenceContext(self.task, self.band, self.weights, self.finding)

    @property
    def variance(self) -> float:
        """Of the effect: from its interval, and never less than one seed's spread."""
        return max(((self.high - self.low) / 3.92) ** 2, SEED_SD**2 / max(1, self.seeds))


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed of a skill's effect somewhere: mean, standard deviation, rows behind it."""

    mean: float
    deviation: float
    rows: int


def default_path() -> Path | None:
    """The store of this user; None where AUTOTRAINER_EVIDENCE is `none`, its value where it is a path."""
    asked = os.environ.get(ENVIRONMENT, "")
    if asked == "none":
        return None
    if asked:
        return Path(asked).expanduser()
    from platformdirs import user_data_path

    return user_data_path("autotrainer") / "evidence.sqlite"


class EvidenceStore:
    """Rows are added once each; several processes may read and write."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """The store in a file, made where it is missing."""
        self._path, self._clock = path, clock

    def add(self, rows: Iterable[EvidenceRow]) -> None:
        """Add rows; one of the same study, node, skill and finding replaces the earlier."""
        marks = ", ".join("?" for _ in _COLUMNS.split(","))
        values = [tuple(row.model_dump().values()) for row in rows]
        with self._open() as connection:
            connection.executemany(f"INSERT OR REPLACE INTO evidence ({_COLUMNS}) VALUES ({marks})", values)

    def rows(self, skill: str | None = None) -> list[EvidenceRow]:
        """All rows, or those of one skill, oldest first."""
        if not self._path.exists():
            return []
        where, values = ("WHERE skill = ?", (skill,)) if skill else ("", ())
        with self._open() as connection:
            found = connection.execute(
                f"SELECT {_COLUMNS} FROM evidence {where} ORDER BY time, study, node", values
            ).fetchall()
        names = [name.strip() for name in _COLUMNS.split(",")]
        return [EvidenceRow(**dict(zip(names, row, strict=True))) for row in found]

    def belief(self, skill: str, asked: EvidenceContext) -> Belief:
        """The posterior of a skill's effect in a place.

        A normal prior of mean 0 and PRIOR_SD; each row is a normal observation whose precision is multiplied
        by how near its place is (context.weight) and by its age (HALF_LIFE_S). So sparse or far evidence
        shrinks to zero, and rows that contradict each other cancel.
        """
        precision, total, used = 1 / PRIOR_SD**2, 0.0, 0
        now = self._clock()
        for row in self.rows(skill):
            share = weight(row.context, asked) * 0.5 ** (max(0.0, now - row.time) / HALF_LIFE_S)
            if share > 0:
                used += 1
                precision += share / row.variance
                total += share * row.effect / row.variance
        return Belief(total / precision, precision**-0.5, used)

    def beliefs(self, skills: Iterable[str], asked: EvidenceContext) -> Mapping[str, float]:
        """The mean belief of each skill of which something is known there."""
        found = {skill: self.belief(skill, asked) for skill in skills}
        return {skill: belief.mean for skill, belief in found.items() if belief.rows}

    def to_json(self) -> dict[str, Any]:
        """Everything, for another machine."""
        return {"schema_version": 1, "rows": [row.model_dump() for row in self.rows()]}

    def take_json(self, text: str) -> int:
        """Add what `to_json` gave elsewhere; the number of rows.

        Raises:
            ConfigError: it is no such document.
        """
        try:
            value = json.loads(text)
            if value["schema_version"] != 1:
                raise ConfigError(f"schema_version is {value['schema_version']!r}: 1 is known")
            rows = [EvidenceRow.model_validate(row) for row in value["rows"]]
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise ConfigError(
                f"this is no export of evidence: {' '.join(str(error).split())[:200]}"
            ) from None
        self.add(rows)
        return len(rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=30.0)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(_SCHEMA)
            with connection:
                yield connection
        finally:
            connection.close()


def describe(belief: Belief) -> str:
    """A belief for a person."""
    return f"{100 * belief.mean:+.1f} ± {100 * belief.deviation:.1f} points from {belief.rows} trial(s)"
