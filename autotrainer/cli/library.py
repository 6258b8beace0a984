"""`autotrainer skills`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from autotrainer.cli.options import JsonOption, print_json
from autotrainer.errors import SkillError

if TYPE_CHECKING:
    from autotrainer.library.skill import LoadedSkill, SkillCard
    from autotrainer.library.store import EvidenceRow, EvidenceStore

app = typer.Typer(help="The library of published interventions.", rich_markup_mode=None)

FoldersOption: TypeAlias = Annotated[
    list[Path] | None, typer.Option("--skills", metavar="DIR", help="A folder of more skills; repeatable.")
]
SkillArgument: TypeAlias = Annotated[str, typer.Argument(metavar="SKILL", help="Id, or folder, of a skill.")]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """The library of published interventions."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_skills(folders: FoldersOption = None, json_output: JsonOption = False) -> None:
    """List the skills: id, what they treat, cost and what stands behind them.

    Shipped ones, those in skills/ of the user's config folder and of this folder, those of installed plugins.
    """
    rows = [_row(skill.card) for skill in _library(folders).values()]
    if json_output:
        print_json(rows)
        return
    from rich.table import Table

    from autotrainer.cli.drive import console

    table = Table("id", "treats", "kind", "code", "cost", "badge", "paper", box=None, pad_edge=False)
    for row in rows:
        table.add_row(
            row["id"],
            ", ".join(row["treats"]),
            row["kind"],
            row["code"],
            row["cost"],
            row["badge"],
            row["paper"],
        )
    console().print(table)


@app.command("show")
def show_skill(skill: SkillArgument, folders: FoldersOption = None, json_output: JsonOption = False) -> None:
    """Print one skill's page: mechanism, what it changes, when it helps and hurts, how to tell."""
    found = one_skill(skill, folders)
    row = _row(found.card)
    if json_output:
        print_json({**row, "body": found.card.body})
        return
    for key, value in row.items():
        typer.echo(f"{key:9} {', '.join(value) if isinstance(value, list) else value}")
    typer.echo(f"\n{found.card.body}")


@app.command("new")
def new(
    skill: Annotated[str, typer.Argument(metavar="ID", help="Lower-case words joined by -.")],
    into: Annotated[Path, typer.Option("--in", metavar="DIR", help="Where its folder is made.")] = Path(
        "skills"
    ),
) -> None:
    """Make the folder of a new skill that passes its own check and does something; then change it."""
    from autotrainer.library.scaffold import new_skill

    folder = new_skill(skill, into)
    typer.echo(f"made {folder}: SKILL.md (what it is) and skill.py (what it does)")
    typer.echo(f"check it with autotrainer skills check {folder}")


@app.command("check")
def check(
    skill: Annotated[str | None, typer.Argument(metavar="[SKILL]", help="Id, or folder, of a skill.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Check every skill.")] = False,
    folders: FoldersOption = None,
    json_output: JsonOption = False,
) -> None:
    """Check that skills keep the protocol; exit code 1 where one does not."""
    from autotrainer.library.checking import check_skill

    if skill is None and not every:
        raise SkillError("which skill? give its id or folder, or --all")
    chosen = list(_library(folders).values()) if skill is None else [one_skill(skill, folders)]
    rows = []
    for found in chosen:
        troubles = [item for item in check_skill(found) if item.trouble]
        rows.append(
            {**_row(found.card), "ok": not troubles, "troubles": [f"{t.name}: {t.trouble}" for t in troubles]}
        )
    if json_output:
        print_json(rows)
    else:
        for row in rows:
            _print_check(row)
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


@app.command("test")
def try_out(skill: SkillArgument, folders: FoldersOption = None, json_output: JsonOption = False) -> None:
    """Train with a skill: every check, then what it proposes for each finding, two real steps each.

    The shipped tiny model on one CPU core, isolated as in a study; about ten seconds a proposal.
    """
    from autotrainer.study.skill_trial import try_skill

    found = one_skill(skill, folders)
    rows = [{"what": row.what, "ok": row.ok, "found": row.found} for row in try_skill(found)]
    if json_output:
        print_json(rows)
    else:
        for row in rows:
            typer.echo(f"{'ok' if row['ok'] else 'FAIL':4}  {row['what']}: {row['found']}")
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


@app.command("evidence")
def evidence(
    skill: Annotated[str | None, typer.Argument(metavar="[SKILL]", help="Id; default: all.")] = None,
    take: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Add an export of another machine.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """What skills did in earlier studies: every trial, what it was compared with, what is believed.

    --json is the export that --import reads. The store is this user's; AUTOTRAINER_EVIDENCE names another.
    """
    from autotrainer.library.store import EvidenceStore, default_path

    path = default_path()
    if path is None:
        raise SkillError("AUTOTRAINER_EVIDENCE is none: there is no store of evidence")
    store = EvidenceStore(path)
    if take is not None:
        count = store.take_json(take.read_text(encoding="utf-8"))
        typer.echo(f"{count} rows were added to {path}")
        return
    rows = store.rows(skill)
    if json_output:
        print_json({"schema_version": 1, "rows": [row.model_dump() for row in rows]})
        return
    for line in _evidence_lines(store, rows) or [f"no trial is known yet ({path})"]:
        typer.echo(line)


def _evidence_lines(store: EvidenceStore, rows: list[EvidenceRow]) -> list[str]:
    """Beliefs by skill and place, each with its trials; those against it are marked."""
    from autotrainer.library.store import describe

    lines: list[str] = []
    places = dict.fromkeys((row.skill, row.context) for row in rows)
    for skill, place in sorted(places, key=lambda pair: (pair[0], str(pair[1]))):
        belief = store.belief(skill, place)
        lines.append(
            f"{skill} against {place.finding} on {place.task}, {place.band} model, {place.weights} weights: "
            f"{describe(belief)}"
        )
        for row in rows:
            if (row.skill, row.context) == (skill, place):
                against = "  COUNTER-EXAMPLE" if row.effect * belief.mean < 0 else ""
                lines.append(
                    f"  {row.study} {row.node}: {100 * row.effect:+.1f} "
                    f"({100 * row.low:+.1f} to {100 * row.high:+.1f}) points, {row.device_s:.0f} s{against}"
                )
    return lines


def _print_check(row: dict[str, Any]) -> None:
    state = "ok" if row["ok"] else "FAIL"
    typer.echo(
        f"{state:4}  {row['id']:22} {row['code']:7} {row['badge']:9} {row['paper']:18} "
        f"treats {', '.join(row['treats'])}"
    )
    for trouble in row["troubles"]:
        typer.echo(f"      {trouble}")


def _library(folders: list[Path] | None) -> dict[str, LoadedSkill]:
    from autotrainer.library.loader import load_skills
    from autotrainer.library.places import skill_dirs

    return load_skills(skill_dirs(folders or ()))


def one_skill(skill: str, folders: list[Path] | None) -> LoadedSkill:
    """The skill of an id or in a folder."""
    from autotrainer.library.loader import load_skill

    if (Path(skill) / "SKILL.md").is_file():
        return load_skill(Path(skill).resolve())
    library = _library(folders)
    if skill not in library:
        raise SkillError(f"unknown skill {skill!r}: known are {', '.join(library)}")
    return library[skill]


def _row(card: SkillCard) -> dict[str, Any]:
    return {
        "id": card.id,
        "name": card.name,
        "paper": card.paper,
        "family": card.family,
        "kind": card.kind,
        "treats": list(card.treats),
        "requires": list(card.requires),
        "code": "hook" if card.hook else "native",
        "cost": card.cost,
        "badge": card.badge,
        "folder": card.folder,
    }
