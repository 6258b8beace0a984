import subprocess
import sys
from pathlib import Path

import pytest

from autotrainer.errors import SkillError
from autotrainer.library.loader import load_skill, load_skills, read_card
from autotrainer.resources import tree

CARD = """---
id: my-skill
name: Mine
paper: arXiv:2503.10
family: test
kind: rule
treats: [healthy]
cost: none
badge: untested
---
The body.
"""
CODE = """
class Skill:
    def applies(self, recipe, findings): return False
    def propose(self, recipe, findings): raise AssertionError
    def predicts(self, before, after): return None
"""


def write(parent: Path, name: str = "my_skill", card: str = CARD, code: str = CODE) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(card)
    (folder / "skill.py").write_text(code)
    return folder


def test_the_shipped_skills_load_under_their_ids():
    skills = load_skills()
    assert len(skills) >= 6
    assert list(skills) == sorted(skills)
    assert {Path(skill.card.folder).parent for skill in skills.values()} == {tree("skills").resolve()}


def test_a_skill_in_an_extra_folder_is_found_and_its_card_is_text(tmp_path):
    write(tmp_path)
    card = load_skills([tmp_path])["my-skill"].card
    assert (card.paper, card.treats, card.requires, card.body) == (
        "arXiv:2503.10",
        ("healthy",),
        (),
        "The body.",
    )
    assert card.hook is None


def test_a_skill_can_import_its_neighbours(tmp_path):
    folder = write(tmp_path, code="from . import numbers_of_mine\n" + CODE + "\n    n = numbers_of_mine.N\n")
    (folder / "__init__.py").write_text("")
    (folder / "numbers_of_mine.py").write_text("N = 3\n")
    (folder / "hook.py").write_text("")
    loaded = load_skill(folder)
    assert loaded.code.n == 3
    assert loaded.card.hook == str(folder / "hook.py")


def test_two_skills_with_one_id_are_refused_and_both_are_named(tmp_path):
    one, two = write(tmp_path / "a"), write(tmp_path / "b")
    with pytest.raises(SkillError) as error:
        load_skills([tmp_path / "a", tmp_path / "b"])
    assert str(one) in str(error.value)
    assert str(two) in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("---\nid", "id", "front matter"),
        ("kind: rule", "kind: magic", "'magic' is not allowed"),
        ("family: test", "", "family"),
        ("cost: none", "cost: none\ncolour: red", "colour"),
        ("treats: [healthy]", "treats: []", "treats"),
        ("id: my-skill", "id: other", "belongs in a folder named 'other'"),
        ("id: my-skill", "id: [", "not YAML"),
        ("id: my-skill", "id: ../up", "id ="),
    ],
)
def test_a_broken_card_is_refused_with_its_folder(tmp_path, old, new, says):
    folder = write(tmp_path, card=CARD.replace(old, new, 1))
    with pytest.raises(SkillError) as error:
        read_card(folder)
    assert str(folder) in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("x = 1", "a class named Skill"),
        ("class Skill:\n    def applies(self): ...\n", "lacks propose, predicts"),
        ("import no_such_module_anywhere", "cannot be imported"),
        ("def (", "cannot be imported"),
        (CODE + "    def __init__(self, needed): ...\n", "takes no arguments"),
    ],
)
def test_broken_code_is_refused_with_its_folder(tmp_path, code, says):
    folder = write(tmp_path, code=code)
    with pytest.raises(SkillError) as error:
        load_skills([tmp_path])
    assert str(folder) in str(error.value)
    assert says in str(error.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SkillError, match="there is no folder of skills"):
        load_skills([tmp_path / "nothing"])


def test_half_a_skill_is_refused_and_other_folders_are_passed_over(tmp_path):
    (tmp_path / "notes").mkdir()
    (write(tmp_path) / "SKILL.md").unlink()
    with pytest.raises(SkillError, match=r"there is no SKILL\.md"):
        load_skills([tmp_path])


def test_an_installed_plugin_brings_its_skills(tmp_path, monkeypatch):
    write(tmp_path / "plugin_of_skills")
    (tmp_path / "plugin_of_skills" / "__init__.py").write_text("")
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[autotrainer.skills]\nplugin = plugin_of_skills\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "my-skill" in load_skills()


def test_loading_skills_imports_no_training_stack():
    code = (
        "import sys; from autotrainer.library.loader import load_skills; load_skills(); print(*sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout.split()
    assert not {"torch", "transformers", "trl", "harness", "mlflow"} & set(shown)
