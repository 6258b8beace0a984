"""A skill folder written by someone else is used by the next study without any other change."""

import pytest

from autotrainer.library.places import skill_dirs
from autotrainer.library.scaffold import new_skill
from autotrainer.study.skill_trial import try_skill
from autotrainer.study.study import run_study
from autotrainer.study.view import StudyView

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]


CHANGES = {
    "under_training": "collapse",
    '"learning_rate", 2.0': '"learning_rate", 0.1',
    '< KNOBS["learning_rate"].high': '> KNOBS["learning_rate"].low',
}
"""Somebody edits the scaffold: their skill answers a collapse."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    made = new_skill("a-slow-down", folder / "skills")
    for name in ("SKILL.md", "skill.py"):
        text = (made / name).read_text()
        for old, new in CHANGES.items():
            text = text.replace(old, new)
        (made / name).write_text(text)
    return folder


def test_it_trains(project):
    from autotrainer.library.loader import load_skill

    trials = list(try_skill(load_skill(project / "skills" / "a_slow_down")))
    assert [trial.ok for trial in trials] == [True, True], trials


def test_a_study_in_the_project_uses_it(begin, project):
    dirs = skill_dirs(project=project)
    assert [path.name for path in dirs] == ["skills"]
    root = begin(
        "foreign",
        search={"mode": "tree", "steps": 60, "max_nodes": 3, "careful_seeds": 1, "confirm_seeds": 2},
        recipe={"learning_rate": 1e-3},
        skills_dirs=[str(path) for path in dirs],
    )

    def used() -> bool:
        return any("a-slow-down" in node.proposal.skills for node in StudyView.read(root).tree.nodes)

    run_study(root, should_stop=used)
    assert used()
