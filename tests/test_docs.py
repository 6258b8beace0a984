"""What the documentation says can be typed can be typed, and its links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from autotrainer.cli.app import app, invoke

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"])
COMMAND = re.compile(r"^\$ (autotrainer .*)$", re.MULTILINE)
INLINE = re.compile(r"`(autotrainer [^`]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
QUICK = ("init", "skills", "tasks")
"""Commands that are run; the others are held against the options that there are."""


def written() -> list[tuple[str, str]]:
    found = {
        (path.name, line) for path in PAGES for line in COMMAND.findall(path.read_text(encoding="utf-8"))
    }
    return sorted(found)


def mentioned() -> list[tuple[str, str]]:
    found = {(path.name, line) for path in PAGES for line in INLINE.findall(path.read_text(encoding="utf-8"))}
    return sorted(found)


def check(line: str) -> None:
    """Every word that names a command, and every option, is known."""
    command, words = typer.main.get_command(app), shlex.split(line)[1:]
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, f"{line}: there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    known = {name for item in command.params for name in item.opts} | {"--help"}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"{line}: {command.name} has no {word}"


@pytest.mark.parametrize(("page", "line"), written())
def test_a_command_of_the_documentation_is_one(page, line):
    check(line)


@pytest.mark.parametrize(("page", "line"), mentioned())
def test_a_command_in_a_sentence_is_one(page, line):
    check(re.sub(r"\[(\w+)\]|\.\.\.", "x", line))


def test_the_quick_commands_of_the_pages_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ran = 0
    for path in PAGES:
        own = tmp_path / path.stem
        own.mkdir(exist_ok=True)
        monkeypatch.chdir(own)
        for line in COMMAND.findall(path.read_text(encoding="utf-8")):
            words = shlex.split(line)[1:]
            if words[0] in QUICK or "--dry-run" in words:
                assert invoke(words) == 0, line
                ran += 1
                if words[0] == "init":
                    monkeypatch.chdir(words[1])
    assert ran >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_link_is_broken(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
