"""A node's story in the terminal: why it exists, what changed, what happened, what it scored."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autotrainer.study.view import StudyView
from autotrainer.tree.node import Node
from autotrainer.tree.state import Verdict
from autotrainer.ui import facts, llm, text
from autotrainer.ui.decisions import decisions

_KEYS = ("reward", "entropy", "kl_start", "probe/accuracy", "completions/clipped_ratio", "grad_norm")


def node_story(view: StudyView, node_id: str) -> RenderableType:
    """The story of a node.

    Raises:
        KeyError: there is no node of that id.
    """
    node = view.tree[node_id]
    parts: list[RenderableType] = [_title(view, node)]
    for heading, part in _sections(view, node):
        parts += ["", Text(heading, style="bold"), Padding(part, (0, 0, 0, 2))]
    return Group(*parts)


def _title(view: StudyView, node: Node) -> Text:
    title = Text(node.id, style="bold")
    title.append(f"  {node.proposal.purpose}, {node.proposal.edge}, {node.state}", style="not bold")
    if node.verdict is not Verdict.NONE:
        title.append(f", {node.verdict}", style="bold magenta")
    path = " \u2192 ".join(step.id for step in view.tree.lineage(node.id))
    return title.append(f"\n{path}", style="dim not bold")


def _sections(view: StudyView, node: Node) -> Iterator[tuple[str, RenderableType]]:
    yield "Why", _why(node)
    changes = view.changes(node)
    if changes:
        yield "What changed", _lines([text.change(row) for row in changes])
    yield "Where it started", Text(_start(view, node))
    decided = llm.decision_of(view, node.id)
    if decided is not None:
        yield "What the language model decided", _lines(llm.lines(view, decided))
        if edits := llm.diff(decided):
            yield "Its edits", _lines(edits.splitlines())
    elif node.proposal.predictions:
        words = [
            f"{p.metric} {p.direction}{': ' + p.why if p.why else ''}" for p in node.proposal.predictions
        ]
        yield "What it expected", _lines(words)
    if node.findings:
        yield "Findings", _findings(node)
    if node.scores:
        yield "Scores", _scores(node)
    metrics = _metrics(view, node)
    if metrics is not None:
        yield "Training", metrics
    happened = decisions(view, node=node.id)
    if happened:
        yield "What happened", _happened(view, node)
    children = view.tree.children(node.id)
    if children:
        yield "What came of it", _lines([_child(view, child) for child in children])
    cost = view.node_cost(node.id)
    yield (
        "Cost",
        Text(
            f"{text.seconds(cost['train_device_s'])} of training, "
            f"{text.seconds(cost['eval_device_s'])} of evaluation"
        ),
    )
    if node.attempt:
        yield "Files", Text(text.clean(view.paths.job(node.job_id)), overflow="fold")


def _why(node: Node) -> Text:
    proposal = node.proposal
    words = Text(text.clean(proposal.hypothesis))
    by = f"proposed by {proposal.planner}" if proposal.planner else ""
    skills = f"skill {', '.join(proposal.skills)}" if proposal.skills else ""
    treats = f"against {', '.join(proposal.treats)}" if proposal.treats else ""
    seen = f"seen in {proposal.finding_node}" if proposal.finding_node else ""
    more = ", ".join(part for part in (by, skills, treats, seen) if part)
    return words.append(f"\n{text.clean(more)}", style="dim") if more else words


def _start(view: StudyView, node: Node) -> str:
    words = facts.trained_from(node)
    stage = node.proposal.recipe.stages[-1]
    if node.proposal.start.mode == "weights":
        fork = stage.fork
        words += f"; optimizer {fork.optimizer}, {fork.rewarmup_steps} steps of warm-up"
        words += f", reference {fork.reference}"
    return text.clean(f"{words}; {node.proposal.recipe.steps} steps, seed {node.proposal.recipe.seed}")


def _findings(node: Node) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for found in node.findings:
        words = Text(text.clean(f"{found.severity}, from step {found.onset_step}: {found.message}"))
        for fact in found.evidence:
            words.append(
                f"\n{text.clean(fact.metric)} {text.number(fact.value)} "
                f"(limit {text.number(fact.threshold)}), "
                f"steps {fact.steps[0]} to {fact.steps[1]}",
                style="dim",
            )
        if found.told_from:
            words.append(f"\nnot {text.clean(', '.join(found.told_from))}", style="dim")
        table.add_row(Text(text.clean(found.kind)), words)
    return table


def _scores(node: Node) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for score in node.scores.values():
        table.add_row(
            Text(text.clean(score.split)),
            Text(text.percent(score.mean), style="bold"),
            Text(f"95 % interval {100 * score.low:.1f} to {100 * score.high:.1f}"),
            Text(f"greedy {text.percent(score.greedy)}, {score.n} items x {score.samples}", style="dim"),
        )
    return table


def _metrics(view: StudyView, node: Node) -> RenderableType | None:
    metrics = view.metrics(node.id)
    if not len(metrics):
        return None
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in (f"{metrics.last_step} steps", "first", "last", "lowest", "highest"):
        table.add_column(heading, justify="left" if heading.endswith("steps") else "right")
    for key in _KEYS:
        values = metrics.values(key)
        if values:
            table.add_row(
                key, *(text.number(round(v, 4)) for v in (values[0], values[-1], min(values), max(values)))
            )
    return table


def _happened(view: StudyView, node: Node) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right", no_wrap=True)
    table.add_column()
    began = view.events[0].time
    for decision in decisions(view, node=node.id):
        table.add_row(text.seconds(decision.time - began), Text(decision.words))
    return table


def _child(view: StudyView, child: Node) -> str:
    score = f", dev {text.percent(child.score('dev'))}" if child.score("dev") is not None else ""
    return f"{child.id} {facts.title(view, child)}; {child.state}{score}"


def _lines(lines: list[str]) -> Text:
    return Text("\n".join(text.clean(line) for line in lines))
