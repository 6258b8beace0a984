"""NodeState: where a node is, and the one table of legal transitions."""

from __future__ import annotations

from enum import StrEnum


class NodeState(StrEnum):
    """Where a node is."""

    PROPOSED = "proposed"
    """Asked for; its workspace is not built yet."""
    QUEUED = "queued"
    """Its workspace is built; it waits for a slot, or for its next attempt."""
    RUNNING = "running"
    """An attempt has been submitted."""
    EVALUATING = "evaluating"
    """Training ended by its own step limit; the evaluator scores it."""
    COMPLETED = "completed"
    """Trained and scored."""
    PRUNED = "pruned"
    """Stopped by a kill rule."""
    FAILED = "failed"
    """The recipe or the patch is at fault."""
    CRASHED = "crashed"
    """The machine is at fault, more often than attempts are allowed."""
    CANCELLED = "cancelled"
    """Stopped by a person, the deadline or the budget."""

    @property
    def is_terminal(self) -> bool:
        """Whether the node will never change again (validity and verdict may still be given)."""
        return not TRANSITIONS[self]


_S = NodeState
TRANSITIONS: dict[NodeState, frozenset[NodeState]] = {
    _S.PROPOSED: frozenset({_S.QUEUED, _S.FAILED, _S.CANCELLED}),
    _S.QUEUED: frozenset({_S.RUNNING, _S.EVALUATING, _S.FAILED, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.QUEUED, _S.EVALUATING, _S.PRUNED, _S.FAILED, _S.CRASHED, _S.CANCELLED}),
    _S.EVALUATING: frozenset({_S.COMPLETED, _S.FAILED, _S.CRASHED, _S.CANCELLED}),
    _S.COMPLETED: frozenset(),
    _S.PRUNED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CRASHED: frozenset(),
    _S.CANCELLED: frozenset(),
}


class Validity(StrEnum):
    """Whether a node's scores may be used: valid until an integrity check says otherwise."""

    VALID = "valid"
    INVALID = "invalid"


class Verdict(StrEnum):
    """What the gates said about a node."""

    NONE = "none"
    REJECTED = "rejected"
    PROMOTED = "promoted"
    SUPERSEDED = "superseded"
