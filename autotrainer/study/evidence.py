"""Evidence between studies: what is believed when one is prepared, what is remembered when it is finished."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from autotrainer.budget.model_shape import shape_of
from autotrainer.errors import ConfigError
from autotrainer.library.context import EvidenceContext, band_of
from autotrainer.library.store import EvidenceStore, default_path
from autotrainer.library.trials import trials
from autotrainer.study.runtime import Runtime

_TROUBLE = (sqlite3.Error, OSError)


def known_beliefs(runtime: Runtime) -> Mapping[str, float]:
    """The believed effect of every skill here, for the finding that it is called for first.

    A store that cannot be read is noted and means that nothing is known.
    """
    store, band = _store(runtime), _band(runtime)
    if store is None or band is None:
        return {}
    found: dict[str, float] = {}
    try:
        for skill, loaded in runtime.library.items():
            asked = EvidenceContext(runtime.config.task, band, "full", loaded.card.treats[0])
            found |= store.beliefs([skill], asked)
    except _TROUBLE as error:
        runtime.record("note", text=f"the evidence store could not be read: {error}", data={})
    return found


def remember(runtime: Runtime) -> None:
    """Put what this study's skills did into the store; repeated, it changes nothing."""
    store, band = _store(runtime), _band(runtime)
    if store is None or band is None or runtime.view().simulated:
        return
    rows = trials(
        runtime.tree,
        study=f"{runtime.config.id}-{next(iter(runtime.journal)).time:.0f}",
        task=runtime.config.task,
        band=band,
        weights="full",
        time=runtime.clock(),
    )
    try:
        store.add(rows)
    except _TROUBLE as error:
        runtime.record("note", text=f"the evidence store could not be written: {error}", data={})


def _store(runtime: Runtime) -> EvidenceStore | None:
    asked = runtime.config.evidence
    if asked == "none":
        return None
    path = default_path() if asked == "auto" else Path(asked).expanduser()
    return EvidenceStore(path) if path is not None else None


def _band(runtime: Runtime) -> str | None:
    """The model's size band; None where its size is not known: its effects are kept apart."""
    try:
        return band_of(shape_of(runtime.config.model).parameters)
    except ConfigError:
        return None
