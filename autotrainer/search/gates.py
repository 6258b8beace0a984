"""The gates: what a confirmation proves, and which node goes home. Pure functions of the tree.

Screening is a ranking, never a claim. A claim of the search needs its finalist's whole path, on fresh seeds,
to beat equally long careful runs on fresh seeds: a two-sided t-test on seed means with pooled standard
deviation on dev (Holm's correction where there are two finalists), the same sign on holdout, and no integrity
finding. Where that fails the careful recipe goes home.

A claim is about a recipe and needs seeds; what goes home is one checkpoint, the best run of the winning arm
on dev, and needs to beat the base model on holdout, paired over items. With two or three seeds an interval
over seeds is many times wider than what is asked: whether these weights are better than those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from autotrainer.search.frontier import base
from autotrainer.search.plan import Plan
from autotrainer.search.schedule import bar, careful_mean, finalists
from autotrainer.search.statistics import (
    ALPHA,
    MIN_SEEDS,
    SeedTest,
    holm,
    paired_difference,
    seed_test,
)
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.score import Score
from autotrainer.tree.state import NodeState, Validity
from autotrainer.tree.tree import Tree

SEARCH, CAREFUL = "search", "careful"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gates say.

    The winning arm (`search` or `careful`), the finalist behind it, the node to promote (None: nothing beats
    the base model), why (the headline first), why others were rejected, and the figures of the report.
    """

    arm: str
    finalist: str | None
    promote: str | None
    reasons: tuple[str, ...]
    rejected: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)


def judge(tree: Tree, plan: Plan) -> Judgement:
    """Judge a study whose confirmation, controls and base are scored on dev and holdout.

    Scores have to carry their items (`Tree.with_scores`) on the split on which the winner is compared with
    the base model: holdout, or dev where holdout was not scored.
    """
    controls = _usable(tree.with_purpose(Purpose.CONTROL))
    arms = {node.id: _arm(tree, node.id) for node in _judged(tree, plan)}
    tests = {
        name: _t_test(arm, controls, "dev", [other for key, other in arms.items() if key != name])
        for name, arm in arms.items()
    }
    significant = holm({name: test.p for name, test in tests.items() if test is not None}, ALPHA)
    refusals = {name: _refusal(tree, name, arms[name], controls, tests[name], significant) for name in arms}
    passed = [name for name, refusal in refusals.items() if refusal is None]
    winner = max(passed, key=lambda name: fmean(_dev(arms[name])), default=None)
    reported = winner or next(iter(arms), None)
    figures = _figures(tree, reported, tests.get(reported) if reported else None, controls)
    if winner is not None:
        gain = figures["confirmed_gain"]
        headline = (
            f"search pays: {winner} on {gain['n']} fresh seeds is {100 * gain['mean']:+.1f} points "
            f"from equally long careful runs (95 % interval {100 * gain['low']:+.1f} to "
            f"{100 * gain['high']:+.1f}, p = {gain['p']:.3g})"
        )
        runs = arms[winner]
    else:
        headline = _no_claim(tree, refusals)
        runs = controls or _usable(tree.with_purpose(Purpose.CAREFUL))
    rejected = {name: refusal for name, refusal in refusals.items() if refusal is not None}
    rejected |= {name: f"{winner} is better" for name in passed if name != winner}
    return _promotion(tree, winner, runs, headline, rejected, figures)


def _judged(tree: Tree, plan: Plan) -> list[Node]:
    """The finalists that were confirmed; where no confirmation ran, those that would have been."""
    ids = dict.fromkeys(node.proposal.parents[1] for node in tree.with_purpose(Purpose.CONFIRM))
    return [tree[name] for name in ids] or list(finalists(tree, plan))


def _usable(nodes: Sequence[Node]) -> list[Node]:
    return [
        node
        for node in nodes
        if node.state is NodeState.COMPLETED and node.validity is Validity.VALID and "dev" in node.scores
    ]


def _arm(tree: Tree, finalist: str) -> list[Node]:
    return _usable(
        [node for node in tree.with_purpose(Purpose.CONFIRM) if node.proposal.parents[1] == finalist]
    )


def _dev(nodes: Sequence[Node]) -> list[float]:
    return [node.scores["dev"].mean for node in nodes]


def _t_test(
    arm: Sequence[Node], controls: Sequence[Node], split: str, others: Sequence[Sequence[Node]] = ()
) -> SeedTest | None:
    """The test of an arm against the controls; the deviation is pooled with the confirmation's other arms."""
    one, two = _means(arm, split), _means(controls, split)
    if min(len(one), len(two)) < MIN_SEEDS:
        return None
    return seed_test(one, two, pooled_with=[_means(other, split) for other in others])


def _means(nodes: Sequence[Node], split: str) -> list[float]:
    return [node.scores[split].mean for node in nodes if split in node.scores]


def _refusal(
    tree: Tree,
    finalist: str,
    arm: Sequence[Node],
    controls: Sequence[Node],
    test: SeedTest | None,
    significant: Mapping[str, bool],
) -> str | None:
    """Why the finalist does not pass, or None."""
    invalid = [
        node
        for node in (tree[finalist], *_confirmations(tree, finalist))
        if node.validity is Validity.INVALID
    ]
    if invalid:
        return f"{invalid[0].id} is invalid: {invalid[0].validity_reason}"
    if test is None:
        return (
            f"not confirmed: {len(arm)} confirmation and {len(controls)} control seeds were scored, "
            f"{MIN_SEEDS} of each are needed"
        )
    if test.mean <= 0 or not significant[finalist]:
        return (
            f"{100 * test.mean:+.1f} points from equally long careful runs over {test.n} fresh seeds "
            f"(95 % interval {100 * test.low:+.1f} to {100 * test.high:+.1f}, p = {test.p:.3g}): "
            "no gain is proven"
        )
    held = _t_test(arm, controls, "holdout")
    if held is None:
        return "holdout was not scored"
    if held.mean <= 0:
        return f"holdout does not agree: {100 * held.mean:+.1f} points where dev says {100 * test.mean:+.1f}"
    return None


def _confirmations(tree: Tree, finalist: str) -> list[Node]:
    return [node for node in tree.with_purpose(Purpose.CONFIRM) if node.proposal.parents[1] == finalist]


def _no_claim(tree: Tree, refusals: Mapping[str, str | None]) -> str:
    if refusals:
        return "no gain of the search is claimed: " + "; ".join(
            f"{name} {refusal}" for name, refusal in refusals.items()
        )
    if not tree.with_purpose(Purpose.SEARCH):
        return "no search was run: the careful recipe goes home"
    level = bar(tree)
    return "search did not pay: no search node is above the careful recipe" + (
        f"'s dev score of {100 * level:.1f} %" if level is not None else ""
    )


def _figures(
    tree: Tree, finalist: str | None, test: SeedTest | None, controls: Sequence[Node]
) -> dict[str, Any]:
    """Search-time and confirmed gain on dev over equally long careful runs, and the share that was confirmed.

    Where there are no such runs, the search-time gain is that over the careful seeds, which are shorter.
    """
    figures: dict[str, Any] = {"search_time_gain": None, "confirmed_gain": test.figure() if test else None}
    level = fmean(_dev(controls)) if controls else careful_mean(tree)
    found = tree[finalist].score("dev") if finalist is not None else None
    if level is not None and found is not None:
        figures["search_time_gain"] = found - level
        if test is not None and found > level:
            figures["confirmed_share"] = test.mean / (found - level)
    return figures


def _promotion(
    tree: Tree,
    winner: str | None,
    runs: Sequence[Node],
    headline: str,
    rejected: Mapping[str, str],
    figures: dict[str, Any],
) -> Judgement:
    arm = SEARCH if winner is not None else CAREFUL
    if not runs:
        reason = "there is nothing to promote: no run of the careful recipe was scored"
        return Judgement(arm, winner, None, (headline, reason), rejected, figures)
    best = max(runs, key=lambda node: (node.scores["dev"].mean, -node.index))
    split, reference = _reference(tree, best)
    if reference is None:
        reason = "there is nothing to promote: the base model was not scored"
        return Judgement(arm, winner, None, (headline, reason), rejected, figures)
    confidence = 1 - ALPHA if split == "holdout" else 1 - ALPHA / len(runs)
    gain = paired_difference(best.scores[split], reference, confidence=confidence)
    figures["gain_over_base_" + split] = {"mean": gain.mean, "low": gain.low, "high": gain.high, "n": 1}
    figure = (
        f"{100 * gain.mean:+.1f} points from the base model on {split} ({100 * confidence:.3g} % interval "
        f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}, paired over {reference.n} items)"
    )
    if gain.low <= 0:
        return Judgement(arm, winner, None, (headline, f"nothing is promoted: {figure}"), rejected, figures)
    return Judgement(arm, winner, best.id, (headline, f"{best.id} is promoted: {figure}"), rejected, figures)


def _reference(tree: Tree, best: Node) -> tuple[str, Score | None]:
    """The split that base and the best run were both scored on, holdout before dev, with the base's score.

    The best run is chosen on dev, so that its holdout score is not flattered by the choice; on dev itself the
    interval has to make up for it.
    """
    root = base(tree)
    split = "holdout" if "holdout" in root.scores and "holdout" in best.scores else "dev"
    return split, root.scores.get(split)
