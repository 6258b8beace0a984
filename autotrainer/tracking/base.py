"""Tracker: a mirror of a study elsewhere, for people; the study never depends on it."""

from __future__ import annotations

from typing import Protocol

from autotrainer.study.view import StudyView


class Tracker(Protocol):
    """Mirrors a study, tick by tick, from its view alone.

    Idempotent and rebuildable: a mirror that was lost or fell behind is complete again after one `mirror`
    with a newer view. A tracker that cannot be reached never raises: the failure's text is in `last_error`,
    and a later call catches up. Not thread-safe.
    """

    @property
    def last_error(self) -> str | None:
        """Why the last attempt failed; None after one that succeeded."""

    def mirror(self, view: StudyView) -> None:
        """Bring the mirror up to the view."""

    def close(self) -> None:
        """Try once more where the mirror is behind, and let go of it."""
