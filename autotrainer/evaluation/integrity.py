"""Checks on the evaluator's answers: that one belongs to its place, adds up and speaks of the right model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from autotrainer.contract.models import EvalAnswer
from autotrainer.errors import EvaluationError

_TOLERANCE = 1e-9


def check_answer(answer: EvalAnswer, node: str, step: int, split: str) -> None:
    """Refuse an answer that is an error, does not belong to its place or does not add up.

    Raises:
        EvaluationError: the message names what is wrong.
    """
    if answer.error is not None:
        raise EvaluationError(f"{answer.id}: {answer.error}")
    if (answer.node, answer.step, answer.split) != (node, step, split):
        raise EvaluationError(
            f"the answer for {node} step {step} on {split} says "
            f"{answer.node} step {answer.step} on {answer.split}"
        )
    distinct = len({item.id for item in answer.items})
    if not answer.items or not len(answer.items) == distinct == answer.n:
        raise EvaluationError(
            f"{answer.id}: {len(answer.items)} items, {distinct} of them distinct, where n is {answer.n}"
        )
    wrong = [item.id for item in answer.items if len(item.scores) != answer.samples]
    if wrong:
        raise EvaluationError(f"{answer.id}: item {wrong[0]} has not {answer.samples} samples")
    if len(answer.model_sha256) != 64:
        raise EvaluationError(f"{answer.id}: model_sha256 {answer.model_sha256!r} is not a SHA-256")
    _check_scores(answer)


def _check_scores(answer: EvalAnswer) -> None:
    every = [score for item in answer.items for score in (*item.scores, item.greedy) if score is not None]
    outside = [score for score in every if not 0.0 <= score <= 1.0]
    if outside:
        raise EvaluationError(f"{answer.id}: score {outside[0]} is not in [0, 1]")
    unscorable = sum(score is None for item in answer.items for score in item.scores)
    if unscorable != answer.unscorable:
        raise EvaluationError(f"{answer.id}: {unscorable} unscorable samples, it says {answer.unscorable}")
    mean = fmean(item_means(answer).values())
    if not math.isclose(mean, answer.mean, abs_tol=_TOLERANCE):
        raise EvaluationError(f"{answer.id}: the mean of its items is {mean}, it says {answer.mean}")


def item_means(answer: EvalAnswer) -> dict[str, float]:
    """Each item's mean over samples; an unscorable completion counts as wrong."""
    return {
        item.id: fmean(score if score is not None else 0.0 for score in item.scores) for item in answer.items
    }


def check_same_model(answers: Sequence[EvalAnswer]) -> None:
    """Refuse answers of one checkpoint that speak of different weights.

    Raises:
        EvaluationError: the checkpoint changed between two evaluations; the message has both digests.
    """
    for one, two in pairwise(answers):
        if one.model_sha256 != two.model_sha256:
            raise EvaluationError(
                f"{one.id} and {two.id} are of one checkpoint, but its weights changed: "
                f"{one.model_sha256[:12]} and {two.model_sha256[:12]}"
            )


def check_model(answer: EvalAnswer, folder: Path) -> None:
    """Refuse an answer that is not about the weights in a folder, such as those that go home.

    Raises:
        EvaluationError: the digests differ, or the folder has no weights.
    """
    found = weights_sha256(folder)
    if found != answer.model_sha256:
        raise EvaluationError(
            f"{answer.id} is about weights {answer.model_sha256[:12]}, {folder} holds {found[:12]}"
        )


def weights_sha256(folder: Path) -> str:
    """A model's digest as the evaluator takes it.

    The SHA-256 of its safetensors file; of the lines `<sha256>  <name>` where there are several.

    Raises:
        EvaluationError: there is none.
    """
    digests = {path.name: _sha256(path) for path in sorted(folder.glob("*.safetensors"))}
    if not digests:
        raise EvaluationError(f"{folder} holds no safetensors file")
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    return hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
