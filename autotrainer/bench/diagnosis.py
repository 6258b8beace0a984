"""Diagnosis: hit and false-alarm rates on injected tiny-model runs and public logs, beside simple rules.

No threshold was fitted on the injected runs, so all of them are held out. Public logs are read from
../shared/logs where they are; their classes are the owners' or the collector's reading. Class by class and in
coarse groups: precision, recall, abstentions, and the step at which the illness was dated against the step
at which it was put in, where that is known. Intervals are bootstraps over runs.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Any

from autotrainer.bench.base import BenchOptions
from autotrainer.bench.public_logs import truth_of
from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.readers.run import ForeignRun, read_runs
from autotrainer.diagnostics.survey.survey import survey
from autotrainer.resources import tree
from autotrainer.tree.finding import Severity

GROUPS = {
    "reward": {"P01", "P02", "P07", "P08"},
    "length": {"P03", "P04", "P05", "P06"},
    "entropy": {"P09", "P10"},
    "divergence": {"P11", "P12", "P23"},
    "stillness": {"P13", "P28"},
    "numbers": {"P14"},
    "sampler": {"P15", "P16", "P17", "P18"},
    "reference": {"P27"},
}
ONSETS = {"p14-nan": 20, "p11-jump": 20}
RESAMPLES, TOP, FEWEST = 500, 3, 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """One run: what it is (H healthy; several classes where several are right), and what was said of it."""

    name: str
    truth: frozenset[str]
    said: tuple[str, ...]
    floor: tuple[str, ...]
    cannot_tell: bool
    killed: bool
    onset: int | None


def run(options: BenchOptions) -> dict[str, Any]:
    """Diagnose every run of every set."""
    sets = {"injected": _injected(), "public": _public()}
    figures: dict[str, Any] = {
        "macro_f1": {},
        "healthy_killed": {},
        "macro_f1_top3": {},
        "floor_macro_f1": {},
        "floor_macro_f1_top3": {},
        "top3": {},
        "groups": {},
    }
    rows = []
    for name, verdicts in sets.items():
        if not verdicts:
            options.progress(f"{name}: there are no runs here")
            continue
        figures["macro_f1"][name] = _interval(verdicts, lambda v: macro_f1(v, _said))
        figures["floor_macro_f1"][name] = _interval(verdicts, lambda v: macro_f1(v, _floor))
        figures["macro_f1_top3"][name] = _interval(verdicts, lambda v: macro_f1(v, _said, TOP))
        figures["floor_macro_f1_top3"][name] = _interval(verdicts, lambda v: macro_f1(v, _floor, TOP))
        figures["top3"][name] = _interval(verdicts, _top3)
        figures["groups"][name] = {group: _scores(verdicts, members) for group, members in GROUPS.items()}
        healthy = [one for one in verdicts if "H" in one.truth]
        killed = sum(one.killed for one in healthy)
        figures["healthy_killed"][name] = killed
        rows += [{"set": name, "class": key, **_scores(verdicts, {key})} for key in _classes(verdicts)]
        options.progress(
            f"{name}: {len(verdicts)} runs, macro F1 {figures['macro_f1'][name]['mean']:.2f} "
            f"(floor {figures['floor_macro_f1'][name]['mean']:.2f}), "
            f"{killed} of {len(healthy)} healthy ones killed"
        )
    return {"figures": figures, "rows": rows}


def _said(verdict: Verdict) -> tuple[str, ...]:
    return verdict.said


def _floor(verdict: Verdict) -> tuple[str, ...]:
    return verdict.floor


def macro_f1(
    verdicts: Sequence[Verdict], said: Callable[[Verdict], tuple[str, ...]], depth: int = 1
) -> float:
    """The mean over classes with at least FEWEST runs of F1; what `said` gives is searched as far as `depth`.

    With depth 1 the worst finding is the answer; with 3 the right class counts anywhere in the worst three.
    """
    scores = []
    for name in _classes(verdicts):
        hit = sum(name in one.truth and _answer(one, said(one), depth) == name for one in verdicts)
        missed = sum(
            name in one.truth and _answer(one, said(one), depth) not in one.truth for one in verdicts
        )
        wrong = sum(name not in one.truth and _answer(one, said(one), depth) == name for one in verdicts)
        scores.append(2 * hit / (2 * hit + missed + wrong) if hit + missed + wrong else 1.0)
    return fmean(scores) if scores else 0.0


def _answer(one: Verdict, said: tuple[str, ...], depth: int) -> str:
    """The right class where it is among the first `depth`, else the worst; H where nothing was said."""
    right = [name for name in said[:depth] if name in one.truth]
    return right[0] if right else said[0] if said else "H"


def _classes(verdicts: Sequence[Verdict]) -> list[str]:
    names = sorted({name for one in verdicts for name in one.truth})
    return [name for name in names if sum(name in one.truth for one in verdicts) >= FEWEST]


def _top3(verdicts: Sequence[Verdict]) -> float:
    ill = [one for one in verdicts if "H" not in one.truth]
    return fmean(bool(set(one.said[:TOP]) & one.truth) for one in ill) if ill else 1.0


def _scores(verdicts: Sequence[Verdict], members: set[str]) -> dict[str, Any]:
    """Precision, recall, abstentions and the mean onset error of a class or group."""
    own = [one for one in verdicts if one.truth & members]
    said = [one for one in verdicts if set(one.said[:TOP] or ("H",)) & members]
    hit = sum(bool(set(one.said[:TOP] or ("H",)) & members) for one in own)
    onsets = [
        abs(one.onset - wanted)
        for one in own
        for key, wanted in ONSETS.items()
        if one.name.startswith(key) and one.onset is not None
    ]
    return {
        "runs": len(own),
        "recall": hit / len(own) if own else None,
        "precision": sum(bool(one.truth & members) for one in said) / len(said) if said else None,
        "abstained": sum(one.cannot_tell for one in own) / len(own) if own else None,
        "onset_error_steps": fmean(onsets) if onsets else None,
    }


def _interval(verdicts: Sequence[Verdict], figure: Callable[[Sequence[Verdict]], float]) -> dict[str, Any]:
    rng = Random(0)
    drawn = sorted(figure(rng.choices(verdicts, k=len(verdicts))) for _ in range(RESAMPLES))
    return {
        "mean": figure(verdicts),
        "low": drawn[round(0.025 * RESAMPLES)],
        "high": drawn[round(0.975 * RESAMPLES) - 1],
        "n": len(verdicts),
    }


def _injected() -> list[Verdict]:
    bank = tree("experiments") / "pathologies" / "bank.jsonl.gz"
    if not bank.is_file():
        return []
    with gzip.open(bank, "rt", encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    return [
        _verdict(item["id"], frozenset({item["truth"]}), _bare(Metrics(item["rows"])))
        for item in runs
        if item["rows"]
    ]


def _bare(metrics: Metrics) -> ForeignRun:
    keys = frozenset(key for row in metrics.rows for key in row)
    return ForeignRun("bank", metrics, False, keys)


def _public() -> list[Verdict]:
    folder = tree("experiments").parent.parent / "shared" / "logs"
    if not folder.is_dir():
        return []
    found = []
    for path in sorted(folder.rglob("*")):
        truth = truth_of(path.name) if path.is_file() else None
        if truth is not None:
            found.append(_verdict(path.name, truth, read_runs(path)[-1]))
    return found


def _verdict(name: str, truth: frozenset[str], run: ForeignRun) -> Verdict:
    found = survey(run)
    real = [finding for finding in found.findings if finding.severity is not Severity.INFO]
    onset = next((finding.onset_step for finding in real if finding.pathology in truth), None)
    return Verdict(
        name,
        truth,
        tuple(finding.pathology for finding in real),
        floor(run.metrics),
        found.verdict == "cannot_tell",
        found.kill is not None,
        onset,
    )


def floor(metrics: Metrics) -> tuple[str, ...]:
    """Simple alarm rules: the first that ever fires, each on one number."""
    alarms = []
    reward, entropy = metrics.values("reward"), metrics.values("entropy")
    if metrics.nonfinite():
        alarms.append("P14")
    if max(metrics.values("sampling/sampling_logp_difference/mean"), default=0.0) > 0.05:
        alarms.append("P15")
    if entropy and max(entropy) > 3 * max(entropy[0], 1e-9):
        alarms.append("P10")
    if entropy and entropy[-1] < 0.05:
        alarms.append("P09")
    if max(metrics.values("completions/clipped_ratio"), default=0.0) > 0.5:
        alarms.append("P03")
    if max(metrics.values("kl"), default=0.0) > 1.0:
        alarms.append("P11")
    if reward and reward[-1] < 0.5 * reward[0]:
        alarms.append("P11")
    if max(metrics.values("frac_reward_zero_std"), default=0.0) >= 0.9:
        alarms.append("P01")
    return tuple(dict.fromkeys(alarms))
