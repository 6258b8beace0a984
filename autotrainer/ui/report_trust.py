"""How far the report can be trusted: integrity, isolation, audited kills, ablations."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autotrainer.errors import ContractError
from autotrainer.files import decode_number, read_json
from autotrainer.search.audit import audit
from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Edge, Purpose
from autotrainer.tree.state import Validity
from autotrainer.ui import facts, text

_GRADES = {
    "A": "namespaces: a job could not see the held-out splits",
    "B": "another user or a container",
    "C": "digests only: a job could have read the held-out splits",
}


def trust(view: StudyView) -> list[tuple[str, str]]:
    """What was checked and how it came out, as pairs."""
    return [
        ("integrity", _integrity(view)),
        ("isolation", _isolation(view)),
        ("task", _task(view)),
        ("kill rules", kill_audit(view)),
    ]


def _integrity(view: StudyView) -> str:
    trained = [node for node in view.tree.nodes if node.attempt]
    invalid = [node for node in trained if node.validity is Validity.INVALID]
    words = (
        f"the frozen files of the harness were compared by digest before and after "
        f"{text.plural(len(trained), 'run')}; "
    )
    if not invalid:
        return words + "none was invalid"
    return words + "; ".join(f"{node.id} is invalid: {text.clean(node.validity_reason)}" for node in invalid)


def _isolation(view: StudyView) -> str:
    """The grades that the supervisors recorded for the jobs of nodes."""
    grades: Counter[str] = Counter()
    for node in view.tree.nodes:
        if not node.attempt:
            continue
        try:
            grade = read_json(view.paths.job(node.job_id) / "supervisor.json").get("isolation")
        except (FileNotFoundError, ContractError):
            grade = None
        grades[str(grade) if grade in _GRADES else "unknown"] += 1
    if not grades:
        return "no job has run"
    return "; ".join(
        f"grade {grade} ({_GRADES.get(grade, 'no record')}) for {text.plural(count, 'job')}"
        for grade, count in sorted(grades.items())
    )


def _task(view: StudyView) -> str:
    event = view.last("study_prepared")
    found: dict[str, Any] = dict(event.data["manifest"].get("audit") or {}) if event else {}
    if not found:
        return "not audited"
    return (
        f"before the start the verifier accepted {text.percent(found.get('gold_accepted'))} of the right "
        f"answers and rejected {text.percent(found.get('bad_rejected'))} of known wrong ones; items in two "
        f"splits: {text.number(found.get('overlap'))}"
    )


def kill_audit(view: StudyView) -> str:
    """How often a kill would have been wrong, from the nodes that were run on to see."""
    counted = audit(view.events, view.tree)
    stopped = text.plural(len(facts.kills(view)), "node")
    if counted.n == 0:
        return f"{stopped} stopped early; no kill was audited by running the node on"
    return (
        f"{stopped} stopped early; of {text.plural(counted.n, 'further node')} that a rule would have "
        f"stopped and that ran on to see, {counted.wrong} led to the best (at 95 % the rate is below "
        f"{text.percent(counted.upper)})"
    )


def ablations(view: StudyView) -> list[str]:
    """What is known of which change on the winner's path did it."""
    lines = [_ablation(view, node) for node in view.tree.nodes if node.proposal.edge is Edge.ABLATE]
    searched = [node for node in facts.winner_path(view) if node.proposal.purpose is Purpose.SEARCH]
    steps = [(gain, node) for node in searched if (gain := _gain(view, node)) is not None]
    if steps:
        gain, node = max(steps, key=lambda step: step[0])
        lines.append(
            f"The largest step of the path is {node.id} ({facts.title(view, node)}): {text.points(gain)} "
            "points on dev, seen once"
            + ("." if lines else "; no run took one change back, so what caused it is not proved.")
        )
    return lines


def _ablation(view: StudyView, node: Node) -> str:
    gain = _gain(view, node)
    words = f"{node.id} takes back {text.changes(view.changes(node))}: "
    if gain is None:
        return words + (text.clean(facts.reason(node)) or str(node.state))
    return words + f"{text.points(gain)} points on dev against {node.parent}"


def _gain(view: StudyView, node: Node) -> float | None:
    after, before = node.score("dev"), view.tree[node.parent].score("dev") if node.parent else None
    return after - before if after is not None and before is not None else None


def provable(view: StudyView) -> str:
    """The smallest gain that this budget could prove, as a sentence; empty before the plan is made."""
    plan = view.plan
    if plan is None or not plan.confirm_seeds:
        return ""
    gain = float(decode_number(plan.provable_gain))
    return (
        f"The smallest gain that this budget could prove is about {100 * gain:.1f} points."
        if gain < 1
        else ""
    )


def money(view: StudyView) -> str:
    """What language models cost, as a sentence."""
    ledger = view.ledger
    if not ledger.llm_granted and not ledger.llm_used:
        return "No language model was asked: no money was spent."
    return f"Language models: {ledger.llm_used:.2f} of {ledger.llm_granted:.2f} USD."
