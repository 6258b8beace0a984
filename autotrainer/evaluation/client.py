"""EvaluatorClient: asks the resident evaluator for scores, through files."""

from __future__ import annotations

from statistics import fmean

from autotrainer.contract.models import EvalAnswer, EvalRequest
from autotrainer.contract.paths import StudyPaths
from autotrainer.errors import ContractError, EvaluationError
from autotrainer.evaluation.integrity import check_answer, check_same_model, item_means
from autotrainer.tree.score import SPLITS, Score


class EvaluatorClient:
    """Requests and answers of one study. Asking again for what is asked or answered already does nothing."""

    def __init__(self, paths: StudyPaths) -> None:
        """A client of the study in `paths`."""
        self._paths = paths

    def request(
        self,
        node: str,
        step: int,
        split: str,
        model_path: str,
        *,
        n: int,
        samples: int,
        temperature: float,
        max_completion_length: int,
        seed: int,
    ) -> str:
        """Ask for one checkpoint on one split and return the request's id.

        Raises:
            EvaluationError: the request breaks the contract; the message names the field.
        """
        identity = f"{node}-{step}-{split}"
        place = self._paths.eval_requests / f"{identity}.json"
        output = self._paths.eval_answer(node, step, split)
        if output.is_file() or place.is_file():
            return identity
        value = {
            "id": identity,
            "node": node,
            "step": step,
            "split": split,
            "model_path": model_path,
            "n": n,
            "samples": samples,
            "temperature": temperature,
            "max_completion_length": max_completion_length,
            "seed": seed,
            "output": str(output.absolute()),
        }
        try:
            EvalRequest.model_validate(value).write(place)
        except ValueError as error:
            raise EvaluationError(f"request {identity}: {error}") from error
        return identity

    def poll(self, request: str) -> EvalAnswer | None:
        """The answer to a request, None while there is none.

        Raises:
            EvaluationError: the answer is an error, or cannot be trusted; or this is no request's id.
        """
        node, step, split = ([*request.rsplit("-", 2), "", ""])[:3]
        if not step.isdecimal() or split not in SPLITS:
            raise EvaluationError(f"request {request!r} must be <node>-<step>-<split>")
        try:
            return self.answer(node, int(step), split)
        except FileNotFoundError:
            return None

    def answer(self, node: str, step: int, split: str) -> EvalAnswer:
        """The answer that is there, checked, also against the checkpoint's answers on other splits.

        Raises:
            FileNotFoundError: there is none.
            EvaluationError: it is an error, or cannot be trusted.
        """
        answer = self._read(node, step, split)
        check_answer(answer, node, step, split)
        others = [self._sibling(node, step, other) for other in SPLITS if other != split]
        for other in others:
            if other is not None and other.error is None:
                check_same_model([answer, other])
        return answer

    def _read(self, node: str, step: int, split: str) -> EvalAnswer:
        try:
            return EvalAnswer.read(self._paths.eval_answer(node, step, split))
        except ContractError as error:
            raise EvaluationError(str(error)) from error

    def _sibling(self, node: str, step: int, split: str) -> EvalAnswer | None:
        try:
            return self._read(node, step, split)
        except FileNotFoundError:
            return None

    @staticmethod
    def score(answer: EvalAnswer) -> Score:
        """The score of an answer; an unscorable completion counts as wrong."""
        greedy = fmean(item.greedy if item.greedy is not None else 0.0 for item in answer.items)
        return Score.from_items(
            answer.split, item_means(answer), samples=answer.samples, seeds=(answer.seed,), greedy=greedy
        )
