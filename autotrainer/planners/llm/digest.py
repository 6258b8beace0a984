"""The digest: what the language model is told, within a budget of tokens, from the tree and files alone.

Sections enter in the order of their importance, each with a largest share, as long as they fit, so that the
digest of a study of hundreds of nodes is as long as that of a study of ten. Nothing depends on the clock:
equal studies give equal digests.

Never in it: an item of dev, holdout or test; a score on holdout or test. Holdout enters as passed or failed.
Text of models and programs stands between <data> and </data>, those marks in it taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from autotrainer.contract.metrics import Metrics
from autotrainer.library.evidence import evidence
from autotrainer.planners.base import PlanningContext
from autotrainer.planners.llm.desk import StudyFacts
from autotrainer.planners.llm.loops import Mood
from autotrainer.planners.llm.prices import BYTES_A_TOKEN
from autotrainer.recipe.knobs import KNOBS, KnobValue
from autotrainer.recipe.recipe import Stage
from autotrainer.search.frontier import base
from autotrainer.tree.finding import Severity
from autotrainer.tree.node import Node
from autotrainer.tree.proposal import Purpose
from autotrainer.tree.state import NodeState, Verdict
from autotrainer.tree.tree import Tree

SERIES = (
    "reward",
    "probe/accuracy",
    "entropy",
    "kl_start",
    "grad_norm",
    "completions/clipped_ratio",
    "completions/mean_length",
    "groups/mixed",
    "frac_reward_zero_std",
)
POINTS = 8
MAX_LISTED = 40


@dataclass(frozen=True, slots=True)
class DigestInputs:
    """Everything that a digest is built from."""

    context: PlanningContext
    facts: StudyFacts
    selected: str
    suggestion: Mapping[str, KnobValue] = field(default_factory=dict)
    suggestion_state: str = ""
    hints: Sequence[str] = ()
    rollouts: Sequence[Mapping[str, Any]] = ()
    tried: Sequence[str] = ()
    """What was decided before and what became of it, oldest first."""
    files: Mapping[str, str] = field(default_factory=dict)
    calibration: str = ""
    mood: Mood = Mood.FREE
    mood_target: str = ""


def build_digest(inputs: DigestInputs, max_tokens: int) -> str:
    """The digest, at most `max_tokens` long by the estimate of 3 bytes a token."""
    room = int(max_tokens * BYTES_A_TOKEN)
    text = ""
    for heading, share, write in _SECTIONS:
        lines = write(inputs)
        if not lines:
            continue
        left = room - len(text.encode())
        part = _fit(heading, lines, min(left, int(share * room)))
        text += part
    return text


def _fit(heading: str, lines: Sequence[str], room: int) -> str:
    """A section cut to whole lines that fit; data sections keep their closing mark."""
    quoted = bool(lines) and lines[0] == "<data>"
    head, tail = f"## {heading}\n", "</data>\n\n" if quoted else "\n"
    used = len((head + tail).encode())
    kept: list[str] = []
    for line in lines[:-1] if quoted else lines:
        size = len(line.encode()) + 1
        if used + size > room:
            note = "(more left out)"
            if kept and used + len(note) + 1 <= room:
                kept.append(note)
            break
        kept.append(line)
        used += size
    if not kept or (quoted and len(kept) == 1):
        return ""
    return head + "\n".join(kept) + "\n" + tail


def quote(text: str, limit: int) -> str:
    """Text of others on one line, without marks of data and fences; the middle of long text is cut."""
    line = " ".join(str(text).split())
    line = line.replace("<", "(").replace(">", ")").replace("```", "'''")
    return line if len(line) <= limit else f"{line[: limit * 2 // 3]} ... {line[-limit // 3 :]}"


def _study(inputs: DigestInputs) -> list[str]:
    facts = inputs.facts
    lines = [
        f"Task {facts.task} ({facts.title or 'no description'}), model {facts.model}, mode {facts.mode}.",
        f"{facts.nodes_left} nodes are left in the search; a node trains {inputs.context.steps} steps; "
        f"paths are at most {facts.max_depth} edges deep.",
        f"Noise floor: a gain below {100 * facts.provable_gain:.1f} points on dev is not told from chance.",
    ]
    if inputs.mood is Mood.SUBTRACT:
        lines.append(
            "MODE subtract: several nodes in a row gained nothing. Only take back: no skills, "
            "edits, suggestion, new hooks or rewards; knobs only to values that an ancestor or the careful "
            "recipe had."
        )
    if inputs.mood is Mood.ROLL_BACK:
        lines.append(
            f"MODE roll back: too many nodes in a row gained nothing. The parent is {inputs.mood_target}."
        )
    return lines


def _hints(inputs: DigestInputs) -> list[str]:
    return [f"- {' '.join(hint.split())[:600]}" for hint in inputs.hints[-8:]]


def _selected(inputs: DigestInputs) -> list[str]:
    tree, node = inputs.context.tree, inputs.context.tree[inputs.selected]
    root = node.id == base(tree).id
    stage = inputs.context.careful.stages[-1] if root else node.proposal.recipe.stages[-1]
    lines = [
        f"{node.id}, the base model: a draft beside the careful recipe is wanted."
        if root
        else f"{_row(tree, node)}",
        "knobs: " + ", ".join(f"{key}={_show(value)}" for key, value in stage.knobs.items()),
        "hooks: " + (", ".join(f"{hook.point} {hook.ref}" for hook in stage.hooks) or "none"),
        "rewards: " + ", ".join(f"{reward.ref} x {reward.weight:g}" for reward in stage.rewards),
    ]
    if node.outcome is not None:
        lines.append(f"checkpoints at steps {', '.join(map(str, node.outcome.checkpoints)) or 'none'}")
    return lines


def _findings(inputs: DigestInputs) -> list[str]:
    lines: list[str] = []
    for finding in inputs.context.tree[inputs.selected].findings:
        lines.append(
            f"- {finding.kind} ({finding.pathology}, {finding.severity}, {finding.confidence:.2f} sure) "
            f"from step {finding.onset_step}: {quote(finding.message, 300)}"
        )
        lines += [
            f"    {item.metric} {_show(item.value)} (limit {_show(item.threshold)}), "
            f"steps {item.steps[0]}-{item.steps[1]}"
            for item in finding.evidence[:3]
        ]
    return lines


def _curves(inputs: DigestInputs) -> list[str]:
    metrics = inputs.context.metrics(inputs.selected)
    lines = []
    for key in SERIES:
        points = _thin(metrics, key)
        if points:
            lines.append(f"{key}: " + " ".join(f"{step}:{_show(value)}" for step, value in points))
    return lines


def _thin(metrics: Metrics, key: str) -> list[tuple[int, float]]:
    series = metrics.series(key)
    if len(series) <= POINTS:
        return series
    return [series[round(place * (len(series) - 1) / (POINTS - 1))] for place in range(POINTS)]


def _suggestion(inputs: DigestInputs) -> list[str]:
    if not inputs.suggestion:
        return []
    knobs = ", ".join(f"{key}={_show(value)}" for key, value in inputs.suggestion.items())
    return [f"{inputs.suggestion_state}: {knobs}"]


def _knobs(inputs: DigestInputs) -> list[str]:
    lines: list[str] = []
    for knob in KNOBS.values():
        unit = f" {knob.unit}" if knob.unit else ""
        allowed = "|".join(map(str, knob.choices)) if knob.choices else f"{knob.low:g}..{knob.high:g}"
        words = f"{knob.name} ({knob.role}): {allowed}{unit}"
        if lines and len(lines[-1]) + len(words) < 150:
            lines[-1] += f"; {words}"
        else:
            lines.append(words)
    return lines


def _skills(inputs: DigestInputs) -> list[str]:
    """Skills that apply to the selected node first, with what they did in this study."""
    context = inputs.context
    node = context.tree[inputs.selected]
    recipe = context.careful if node.id == base(context.tree).id else node.proposal.recipe
    kinds = {finding.kind for finding in node.findings}
    measured = evidence(context.tree)
    rows: list[tuple[int, float, str]] = []
    others: list[str] = []
    for name, loaded in context.library.items():
        try:
            fits = loaded.code.applies(recipe, node.findings)
        except Exception:  # noqa: BLE001 - a plugin's code; one that fails cannot be offered
            continue
        known = measured.get(name)
        if not fits:
            others.append(name)
            continue
        effect = (
            f"tried here {known.n} x, mean gain {100 * known.mean_gain:+.1f} points" if known else "not tried"
        )
        treats = ", ".join(loaded.card.treats)
        words = f"- {name}: {loaded.card.name}; treats {treats}; cost {loaded.card.cost}; {effect}"
        rank = 0 if kinds & set(loaded.card.treats) else 1
        rows.append((rank, -(known.mean_gain if known else 0.0), words))
    lines = [words for _, _, words in sorted(rows)] or ["none applies"]
    return lines + ([f"do not apply to this node: {', '.join(others)}"] if others else [])


def _rollouts(inputs: DigestInputs) -> list[str]:
    """Best, worst and odd training rollouts; never from dev, holdout or test, which no job sees."""
    picked = _pick(inputs.rollouts)
    if not picked:
        return []
    lines = ["<data>"]
    for label, row in picked:
        lines.append(
            f"{label}, step {row.get('step')}, reward {_show(row.get('reward'))}, "
            f"{quote(str(row.get('finish_reason')), 10)} | "
            f"prompt: {quote(_prompt(row.get('prompt')), 160)} | "
            f"completion: {quote(str(row.get('completion')), 240)}"
        )
    return [*lines, "</data>"]


def _prompt(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        return str(value[-1].get("content", ""))
    return str(value)


def _pick(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Two best, two worst, the longest, the shortest, and one that was cut."""
    scored = [row for row in rows if isinstance(row.get("reward"), int | float)]
    if not scored:
        return []
    by_reward = sorted(scored, key=lambda row: (float(row["reward"]), str(row.get("completion"))))
    by_length = sorted(scored, key=lambda row: len(str(row.get("completion"))))
    cut = [row for row in scored if row.get("finish_reason") == "length"]
    wanted = [
        ("best", by_reward[-1]),
        ("worst", by_reward[0]),
        ("longest", by_length[-1]),
        ("shortest", by_length[0]),
        *([("cut off", cut[0])] if cut else []),
        ("best", by_reward[-2] if len(by_reward) > 1 else by_reward[-1]),
        ("worst", by_reward[1] if len(by_reward) > 1 else by_reward[0]),
    ]
    seen: list[Mapping[str, Any]] = []
    found = []
    for label, row in wanted:
        if row not in seen:
            seen.append(row)
            found.append((label, row))
    return found


def _lineage(inputs: DigestInputs) -> list[str]:
    tree = inputs.context.tree
    path = tree.lineage(inputs.selected)
    lines = []
    for before, node in pairwise(path):
        old = (
            inputs.context.careful.stages[-1]
            if before.id == base(tree).id
            else before.proposal.recipe.stages[-1]
        )
        lines.append(f"{before.id} -> {node.id}: {_difference(old, node.proposal.recipe.stages[-1])}")
    return lines[-6:]


def _tree(inputs: DigestInputs) -> list[str]:
    """The nodes that matter most first: base, best ones, the selected one, then the newest."""
    tree = inputs.context.tree
    ranked = sorted(tree.candidates, key=lambda node: -(node.score("dev") or 0.0))
    kept = [base(tree).id, inputs.selected, *(node.id for node in ranked[:12])]
    kept += [node.id for node in reversed(tree.nodes)]
    listed = sorted(dict.fromkeys(kept[: MAX_LISTED * 2]), key=kept.index)[:MAX_LISTED]
    lines = [_row(tree, tree[name]) for name in listed]
    if len(tree) > len(listed):
        lines.append(f"({len(tree) - len(listed)} other nodes are not listed)")
    return lines


def _row(tree: Tree, node: Node) -> str:
    score = node.scores.get("dev")
    figures = f" dev {100 * score.mean:.1f} [{100 * score.low:.1f}, {100 * score.high:.1f}]" if score else ""
    parent = f" <- {node.parent}" if node.parent else ""
    skills = f" skills {','.join(node.proposal.skills)}" if node.proposal.skills else ""
    kinds = ",".join(f.kind for f in node.findings if f.severity is not Severity.INFO)
    gate = {Verdict.PROMOTED: " holdout passed", Verdict.REJECTED: " holdout failed"}.get(node.verdict, "")
    reason = (
        f" ({quote(node.kill_reason or node.reason, 90)})"
        if node.state not in (NodeState.COMPLETED, NodeState.RUNNING, NodeState.EVALUATING)
        and (node.kill_reason or node.reason)
        else ""
    )
    what = "" if node.proposal.purpose is Purpose.SEARCH else f" {node.proposal.purpose}"
    return (
        f"{node.id}{parent}{what} {node.proposal.edge} {node.state}{figures}{gate}{skills}"
        f"{f' findings {kinds}' if kinds else ''}{reason}"
    )


def _tried(inputs: DigestInputs) -> list[str]:
    return [f"- {line}" for line in reversed(inputs.tried[-15:])]


def _calibration(inputs: DigestInputs) -> list[str]:
    return [inputs.calibration] if inputs.calibration else []


def _files(inputs: DigestInputs) -> list[str]:
    return [f"{name} ({text.count(chr(10))} lines)" for name, text in inputs.files.items()]


def _code(inputs: DigestInputs) -> list[str]:
    """The hooks and rewards in use, in full where they fit: what a search/replace edit has to match."""
    node = inputs.context.tree[inputs.selected]
    stage = node.proposal.recipe.stages[-1]
    refs = [hook.ref for hook in stage.hooks] + [reward.ref for reward in stage.rewards]
    names = {f"harness/{ref.partition(':')[0]}" for ref in refs}
    lines = []
    for name in sorted(names & inputs.files.keys()):
        lines += [f"# {name}", *inputs.files[name].replace("</data>", "</ data>").splitlines()]
    return ["<data>", *lines, "</data>"] if lines else []


def _difference(old: Stage, new: Stage) -> str:
    rows = [
        f"{key} {_show(old.knobs.get(key))} -> {_show(new.knobs.get(key))}"
        for key in sorted(old.knobs.keys() | new.knobs.keys())
        if old.knobs.get(key) != new.knobs.get(key)
    ]
    rows += [f"+hook {hook.ref}" for hook in new.hooks if hook not in old.hooks]
    rows += [f"-hook {hook.ref}" for hook in old.hooks if hook not in new.hooks]
    rows += [f"+reward {reward.ref}" for reward in new.rewards if reward not in old.rewards]
    return ", ".join(rows) or "no change"


def _show(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "-" if value is None else str(value)


_SECTIONS: tuple[tuple[str, float, Callable[[DigestInputs], list[str]]], ...] = (
    ("Study", 0.3, _study),
    ("Hints of the person who runs the study", 0.3, _hints),
    ("Selected node", 0.3, _selected),
    ("Its findings", 0.25, _findings),
    ("Suggestion of the numeric sampler", 0.1, _suggestion),
    ("Knobs (role): bounds", 0.35, _knobs),
    ("Skills that apply to the selected node", 0.25, _skills),
    ("Its curves, step:value", 0.2, _curves),
    ("Tree (score in % on dev, 95 % interval)", 0.25, _tree),
    ("What was decided before, newest first", 0.2, _tried),
    ("Your predictions so far", 0.1, _calibration),
    ("How the selected node came about", 0.15, _lineage),
    ("Its training rollouts", 0.3, _rollouts),
    ("Editable files of the selected node's harness", 0.1, _files),
    ("Code that the selected node uses", 0.5, _code),
)
"""Heading, largest share of the digest, and writer; in the order in which they enter."""
