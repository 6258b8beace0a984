"""The end of a study: judge the confirmation, score test once, write the verdicts and the summary."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from autotrainer.errors import EvaluationError
from autotrainer.search.gates import Judgement, judge
from autotrainer.search.statistics import Interval, paired_difference, paired_difference_of_seeds
from autotrainer.study import evidence
from autotrainer.study.runtime import Runtime
from autotrainer.study.steps import request_scores
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.score import Score
from autotrainer.tree.state import NodeState, Validity, Verdict
from autotrainer.tree.tree import Tree


def finish_test(runtime: Runtime) -> None:
    """In phase test: score base, controls and finalists' seeds on test, then judge and finish; idempotent."""
    if runtime.view().phase != "test" or runtime.tree.active:
        return
    nodes = _to_test(runtime)
    answered = [_scored(runtime, node) for node in nodes]
    if not all(answered):
        return
    judged = runtime.tree.with_scores(
        {node.id: _with_items(runtime, runtime.tree[node.id]) for node in nodes}
    )
    judgement = judge(judged, runtime.plan)
    _record_verdicts(runtime, judgement)
    runtime.record("phase", phase="done", reason=judgement.reasons[0] if judgement.reasons else "judged")
    evidence.remember(runtime)
    runtime.record("study_finished", reason="completed", summary=summarise(judged, judgement))


def _scored(runtime: Runtime, node: Node) -> bool:
    """Whether the node's test score is there, or never will be."""
    if any(
        event.kind == "note" and event.data["data"].get("unscored") == node.id for event in runtime.journal
    ):
        return True
    try:
        return request_scores(runtime, node, ("test",))
    except EvaluationError as error:
        runtime.record("note", text=f"{node.id} has no test score: {error}", data={"unscored": node.id})
        return True


def _with_items(runtime: Runtime, node: Node) -> dict[str, Score]:
    """The node's scores with their items, from the evaluator's answers."""
    scores = {}
    for split in node.scores:
        answer = runtime.evaluator.answer(node.id, node.last_step, split)
        scores[split] = runtime.evaluator.score(answer)
    return scores


def _to_test(runtime: Runtime) -> list[Node]:
    """What is worth scoring on test: base, confirmation and control (careful where no control ended)."""
    controls = _completed(runtime, Purpose.CONTROL) or _completed(runtime, Purpose.CAREFUL)
    return [*_completed(runtime, Purpose.BASE), *controls, *_completed(runtime, Purpose.CONFIRM)]


def _completed(runtime: Runtime, purpose: Purpose) -> list[Node]:
    return [node for node in runtime.tree.with_purpose(purpose) if node.state is NodeState.COMPLETED]


def _record_verdicts(runtime: Runtime, judgement: Judgement) -> None:
    for node_id, reason in judgement.rejected.items():
        if runtime.tree[node_id].verdict is Verdict.NONE:
            runtime.record(
                "node_verdict", node=node_id, verdict=str(Verdict.REJECTED), reason=reason, figures={}
            )
    if judgement.promote is not None and runtime.tree[judgement.promote].verdict is Verdict.NONE:
        runtime.record(
            "node_verdict",
            node=judgement.promote,
            verdict=str(Verdict.PROMOTED),
            reason=judgement.reasons[0],
            figures=judgement.figures,
        )


def summarise(tree: Tree, judgement: Judgement) -> dict[str, Any]:
    """The study's final figures, on test where it was scored.

    `gain_over_base` is the promoted checkpoint's, paired over items; `recipe_gain_over_base` its recipe's,
    over seeds.
    """
    base = tree.nodes[0].scores.get("test")
    careful = _scores(tree, Purpose.CONTROL) or _scores(tree, Purpose.CAREFUL)
    winner = _scores(tree, Purpose.CONFIRM, judgement.finalist) if judgement.arm == "search" else careful
    summary: dict[str, Any] = {
        "arm": judgement.arm,
        "winner": judgement.promote,
        "finalist": judgement.finalist,
        "reasons": list(judgement.reasons),
        "base_test": _mean([base] if base else []),
        "careful_test": _mean(careful),
        "winner_test": _mean(winner),
        **judgement.figures,
    }
    promoted = tree[judgement.promote].scores.get("test") if judgement.promote else None
    if base is not None and winner:
        recipe = paired_difference_of_seeds(winner, [base])
        summary["recipe_gain_over_base"] = _figure(recipe, len(winner))
        gain = paired_difference(promoted, base) if promoted is not None else recipe
        summary["gain_over_base"] = _figure(gain, 1 if promoted is not None else len(winner))
    return summary


def _figure(gain: Interval, seeds: int) -> dict[str, float | int]:
    return {"mean": gain.mean, "low": gain.low, "high": gain.high, "n": seeds}


def _scores(tree: Tree, purpose: Purpose, finalist: str | None = None) -> list[Score]:
    """The test scores of valid nodes run for a purpose; of one finalist's, where it is given."""
    return [
        node.scores["test"]
        for node in tree.with_purpose(purpose)
        if "test" in node.scores
        and node.validity is Validity.VALID
        and (finalist is None or finalist in node.proposal.parents)
    ]


def _mean(scores: list[Score]) -> float | None:
    return fmean(score.mean for score in scores) if scores else None
